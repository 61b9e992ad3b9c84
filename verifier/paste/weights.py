"""Shapes of parameters and buffers, and what functions such as F.linear(x, self.weight) take with them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from verifier.paste.choose import resolved
from verifier.paste.evaluate import Unknown, evaluate
from verifier.paste.needs import ROWS, SPATIAL, TIME, Need, broadcast, multiplied
from verifier.paste.statements import dotted


def function_need(
    node: ast.Call, made: Mapping[str, ast.expr], known: Mapping[str, Any], table: Mapping[str, str]
) -> Need | None:
    """Return what F.linear(x, self.weight) and the like take."""
    full = resolved(dotted(node.func), dict(table))
    last = full.rpartition(".")[2] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
    found = next((w for a in node.args[1:] if (w := weight(a, made, known, table))), None)
    if found is None:
        return None
    if last in ("matmul", "mm"):
        return multiplied(found)
    if last in ("add", "mul", "sub", "div", "where", "lerp"):
        return broadcast(found)
    if last == "linear":
        return Need((ROWS, found.shape[-1]), found.reason)
    if last.startswith("conv") and len(found.shape) > 2:
        channels = found.shape[0 if "transpose" in last else 1]
        return Need((2, channels, *SPATIAL[len(found.shape) - 2]), found.reason, channels=True)
    return Need((4, TIME, *found.shape), found.reason) if last in ("layer_norm", "rms_norm") else None


def weight(
    node: ast.expr, made: Mapping[str, ast.expr], known: Mapping[str, Any], table: Mapping[str, str]
) -> Need | None:
    """Return the shape of a parameter: nn.Parameter(torch.randn(a, b)), seen through .t() and views."""
    turned, sliced = False, isinstance(node, ast.Subscript)
    if isinstance(node, ast.Subscript):
        node = node.value
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and dotted(node.func.value) in made:
        turned = turned or node.func.attr in ("t", "transpose")
        node = node.func.value
    if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        node, turned = node.value, True
    value = made.get(dotted(node))
    reason = dotted(node)
    ahead = 0
    for _ in range(6):  # through nn.Parameter(…), local names and .unsqueeze(0)
        if isinstance(value, ast.Call) and dotted(value.func).rpartition(".")[2] == "Parameter" and value.args:
            value = value.args[0]
        elif isinstance(value, ast.Name) and value.id in made:
            value = made[value.id]
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "unsqueeze":
            value, ahead = value.func.value, ahead + 1
    if not isinstance(value, ast.Call) or resolved(dotted(value.func), dict(table)).split(".")[0] != "torch":
        return None
    try:
        items = evaluate(ast.Tuple(elts=list(value.args)), known)
    except Unknown:
        return None
    items = items[0] if len(items) == 1 and isinstance(items[0], list) else items
    if not items or not all(type(n) is int and n > 0 for n in items):
        return None
    items = [1] * ahead + items
    if sliced:
        items = [1] * (len(items) - 1) + items[-1:]
    return Need(tuple(reversed(items)) if turned else tuple(items), reason)
