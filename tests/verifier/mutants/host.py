"""What goes wrong around a launch: the grid, the order of the arguments, a block that is too small, a lost scale."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Found = Iterator[tuple[str, ast.AST, str]]


def grids(node: ast.AST) -> Found:
    """Launch one program too few, or lose the last one to a floored division."""
    grid: ast.AST | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
        grid = node.func.slice
    elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "grid":
        grid = node.value
    for size in grid.elts if isinstance(grid, ast.Tuple) else []:
        yield "grid", size, f"{ast.unparse(size)} - 1"
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "triton.cdiv":
        yield "grid floored", node, f"({ast.unparse(node.args[0])}) // ({ast.unparse(node.args[1])})"


def arguments(node: ast.AST) -> Found:
    """Pass two neighbours in the wrong order."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
        given = [ast.unparse(argument) for argument in node.args]
        named = [f"{keyword.arg}={ast.unparse(keyword.value)}" for keyword in node.keywords]
        for at in range(len(given) - 1):
            swapped = [*given[:at], given[at + 1], given[at], *given[at + 2 :]]
            yield "arguments swapped", node, f"{ast.unparse(node.func)}({', '.join([*swapped, *named])})"


def blocks(node: ast.AST) -> Found:
    """Hold half a row where a whole one was meant."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "triton.next_power_of_2":
        yield "block too small", node, f"{ast.unparse(node)} // 2"


def numbers(node: ast.AST) -> Found:
    """Lose a factor, or take another exponent."""
    if isinstance(node, ast.Constant) and type(node.value) is float and node.value:
        yield "constant", node, repr(node.value * 1.1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        yield "constant", node, "1.0"


RULES = (grids, arguments, blocks, numbers)
