"""Numbers that a line makes of the module's own: `1 - self.alpha`, `math.log(self.width) / 2`."""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

_PARTS = (ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Load)
_CALLS = ("float", "int")


def made(line: str, owner: Any, prefix: str) -> Iterator[tuple[str, int | float]]:
    """Yield each such expression of a statement, the outer before the inner ones, and its value.

    `owner` is the module that the line's `self` is, `prefix` how the new file's forward reaches it.
    """
    for expression in _expressions(line):
        try:
            value = eval(compile(ast.Expression(expression), "<line>", "eval"), _Known(owner))
        except Exception:  # an attribute that is no number, a division by nought: nothing to name
            continue
        if type(value) in (int, float) and math.isfinite(value):
            yield ast.unparse(_Moved(prefix).visit(ast.parse(ast.unparse(expression)))), value


class _Known(dict[str, Any]):
    def __init__(self, owner: Any) -> None:
        super().__init__(self=owner, math=math, float=float, int=int, __builtins__={})


class _Moved(ast.NodeTransformer):
    """Puts the path of the submodule in place of `self`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = ast.parse(prefix, mode="eval").body

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._prefix if node.id == "self" else node


@lru_cache(maxsize=64)
def _expressions(line: str) -> tuple[ast.expr, ...]:
    tree = _tree(line)
    found = (
        []
        if tree is None
        else [
            node
            for node in ast.walk(tree)
            if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Call)) and _is_plain(node) and "self" in _names(node)
        ]
    )
    return tuple(found)


def _tree(line: str) -> ast.AST | None:
    text = textwrap.dedent(line).strip()
    for form in (text, text + " pass", f"({text})"):
        try:
            return ast.parse(form)
        except SyntaxError:
            continue
    return None


def _is_plain(node: ast.AST) -> bool:
    """Tell arithmetic with numbers and attributes of self from everything else."""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id == "self"
    if isinstance(node, ast.Call):
        return not node.keywords and _is_function(node.func) and all(map(_is_plain, node.args))
    return isinstance(node, _PARTS) and all(map(_is_plain, ast.iter_child_nodes(node)))


def _is_function(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id == "math"
    return isinstance(node, ast.Name) and node.id in _CALLS


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
