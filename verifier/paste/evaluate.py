"""A tiny evaluator for sizes: numbers, names and arithmetic, never a call of the paste's own code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping
from typing import Any

from verifier.paste.statements import Statement


class Unknown(Exception):
    """The expression is not a plain size."""


_BINARY: dict[type[ast.operator], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Any] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip
_CALLS: dict[str, Any] = {"int": int, "float": float, "max": max, "min": min, "len": len, "round": round, "abs": abs}
LARGEST = 10**9


def evaluate(node: ast.AST | None, names: Mapping[str, Any]) -> Any:
    """Return the value of a size expression; raise Unknown. `names` may hold "self.width" too."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.Tuple, ast.List)):
        return [evaluate(item, names) for item in node.elts]
    if isinstance(node, (ast.Name, ast.Attribute)):
        key = ast.unparse(node)
        if key in names:
            return names[key]
        raise Unknown(key)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _checked(_BINARY[type(node.op)], evaluate(node.left, names), evaluate(node.right, names))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        value = evaluate(node.operand, names)
        return not value if isinstance(node.op, ast.Not) else _checked(operator.mul, value, -1)
    return _compound(node, names)


def _compound(node: ast.AST | None, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.IfExp):
        return evaluate(node.body if evaluate(node.test, names) else node.orelse, names)
    if isinstance(node, ast.BoolOp):
        value = None
        for item in node.values:
            value = evaluate(item, names)
            if bool(value) == isinstance(node.op, ast.Or):
                break
        return value
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
        return _checked(_COMPARE[type(node.ops[0])], evaluate(node.left, names), evaluate(node.comparators[0], names))
    if isinstance(node, ast.Subscript):
        return _checked(operator.getitem, evaluate(node.value, names), evaluate(node.slice, names))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS and not node.keywords:
        return _checked(_CALLS[node.func.id], *(evaluate(item, names) for item in node.args))
    raise Unknown(type(node).__name__)


def size(node: ast.AST | None, names: Mapping[str, Any]) -> int:
    """Return the value where it is a usable size; raise Unknown."""
    value = evaluate(node, names)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < LARGEST and value == int(value):
        return int(value)
    raise Unknown(str(value))


def constants(body: list[Statement]) -> Mapping[str, Any]:
    """Evaluate the top-level constants of a paste."""
    found: dict[str, Any] = {}
    for s in body:
        if isinstance(s.node, ast.Assign) and len(s.node.targets) == 1 and isinstance(s.node.targets[0], ast.Name):
            try:
                found[s.node.targets[0].id] = evaluate(s.node.value, found)
            except Unknown:
                continue
    return found


def _checked(function: Any, *values: Any) -> Any:
    if any(isinstance(v, int) and abs(v) > LARGEST for v in values) or (
        function is operator.mul and any(isinstance(v, (str, list)) for v in values)
    ):
        raise Unknown("large")
    try:
        return function(*values)
    except (ArithmeticError, TypeError, LookupError, ValueError) as fault:
        raise Unknown(str(fault)) from None
