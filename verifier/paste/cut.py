"""A paste that was cut in the middle of a name still parses: tell it by the name that almost exists."""

from __future__ import annotations

import ast
import builtins

from verifier.paste.choose import ModuleClass
from verifier.paste.refusal import NotAProblem
from verifier.paste.statements import Statement
from verifier.paste.syntax import Code


def check(code: Code, body: list[Statement], module: ModuleClass) -> None:
    """Raise NotAProblem when the text ends with a name that is only the beginning of a known one."""
    if any("get_inputs" in s.bound for s in body):
        return
    last = len(code.lines.texts)
    column = len(code.lines.texts[-1].rstrip().encode())
    for node in ast.walk(code.tree.body[-1]):
        if (getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)) != (last, column):
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            _compare(code, node.attr, _attributes(module.node), f"self.{node.attr}")
        elif isinstance(node, ast.Name):
            _compare(code, node.id, _local_names(body), node.id)


def _compare(code: Code, name: str, known: set[str], shown: str) -> None:
    longer = sorted(other for other in known if other.startswith(name))
    if longer and name not in known:
        message = f"the code seems to be cut off: it ends with {shown}, and only {', '.join(longer[:3])} exists"
        raise NotAProblem("truncated", message, "Paste the whole module.", code.lines.numbers[-1])


def _attributes(node: ast.ClassDef) -> set[str]:
    stored = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    registered = {n.args[0].value for n in ast.walk(node) if isinstance(n, ast.Call) and n.args
                  and isinstance(n.args[0], ast.Constant) and isinstance(n.args[0].value, str)}  # fmt: skip
    named = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
    fields = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | registered | named | fields | {"training", "forward", "device", "dtype"}


def _local_names(body: list[Statement]) -> set[str]:
    inner = {n.id for n in ast.walk(body[-1].node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    inner |= {n.arg for n in ast.walk(body[-1].node) if isinstance(n, ast.arg)}
    return inner | {name for s in body for name in s.bound} | set(dir(builtins))
