"""Follows one argument through the expressions of a function: what is still the argument, and in which order."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from verifier.paste.statements import dotted


def is_derived(node: ast.AST, names: set[str], passing: frozenset[str] | set[str] = frozenset()) -> bool:
    """Tell `x`, `x.float()`, `x * 2`, `F.relu(x)`, `-x`, `x.view(…)`: still the same argument."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.UnaryOp):
        return is_derived(node.operand, names, passing)
    if isinstance(node, ast.BinOp):
        return is_derived(node.left, names, passing) and isinstance(node.right, ast.Constant)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if dotted(node.func) in passing and node.args:
            return is_derived(node.args[0], names, passing)
        if dotted(node.func.value) in ("F", "torch", "torch.nn.functional") and node.args:
            plain = not any(isinstance(a, ast.Attribute) for a in node.args[1:])
            return plain and is_derived(node.args[0], names, passing)
        return is_derived(node.func.value, names, passing)
    return False


def pools(node: ast.expr) -> int:
    """Return the dimensions that a pooling layer pools over, 0 for other expressions."""
    kind = dotted(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    return int(kind[-2]) if "Pool" in kind and kind[-2:] in ("1d", "2d", "3d") else 0


def permutation(node: ast.AST) -> tuple[int, ...]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "permute":
        items = (
            node.args[0].elts if len(node.args) == 1 and isinstance(node.args[0], (ast.Tuple, ast.List)) else node.args
        )
        values = [a.value for a in items if isinstance(a, ast.Constant) and isinstance(a.value, int)]
        if len(values) == len(items) and sorted(values) == list(range(len(values))):
            return tuple(values)
    return ()


def permutation_in(node: ast.AST) -> tuple[int, ...]:
    found = [permutation(a) for a in getattr(node, "args", ())]
    return next((p for p in found if p), ())


def in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Walk in the order in which things happen: a loop before its body, the inside of an expression before it."""
    loop = isinstance(node, (ast.For, ast.comprehension))
    if loop:
        yield node
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        children = [*node.generators, node.elt]
    for child in children:
        yield from in_order(child)
    if not loop:
        yield node
