"""Can a problem be told small by its text alone? Looking at it on tensors without data costs an import or two.

Text and ast only. When in doubt the answer is no.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping

from verifier.literals import GIVEN, sites

FACTORIES = frozenset(
    """
    rand randn randint zeros ones empty full arange normal linspace randperm tensor eye
    """.split()
)
INPUTS = 40_000  # elements in one input
PARAMETERS = 1_000_000  # product of the three largest integers, as in an input, an output and a kernel size


def surely_small(source: str) -> bool:
    """Tell whether no tensor of a problem can be large."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return True  # it will not run at all
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if GIVEN[0] not in functions or _powers(tree):
        return False
    largest = sorted((site.value for site in sites(source) if site.value > 1), reverse=True)
    known = _constants(tree)
    sizes = list(_input_sizes(functions[GIVEN[0]], known, functions))
    small = all(size is not None and size <= INPUTS for size in sizes)
    return small and math.prod(largest[:3]) <= PARAMETERS


def _powers(tree: ast.Module) -> bool:
    """Tell whether sizes may come from what is not an integer in the text: a power, a shift, int(1e6)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Pow, ast.LShift)):
            if isinstance(node.left, ast.Constant):
                return True
        elif isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value >= 1000:
            return True
    return False


def _constants(tree: ast.Module) -> dict[str, int]:
    known: dict[str, int] = {}
    for statement in tree.body:
        if not isinstance(statement, ast.Assign):
            continue
        for target in statement.targets:
            pairs = [(target, statement.value)]
            if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
                pairs = list(zip(target.elts, statement.value.elts, strict=False))
            for name, value in pairs:
                number = _number(value, known)
                if isinstance(name, ast.Name) and number is not None:
                    known[name.id] = number
    return known


def _number(node: ast.expr, known: Mapping[str, int]) -> int | None:
    """Return an upper bound of an expression's size: a product over what it names."""
    if isinstance(node, ast.Constant):
        return abs(node.value) if type(node.value) is int else 1
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, (ast.Tuple, ast.List)):
        return _product(node.elts, known)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Add)):
        return _product([node.left, node.right], known)  # a sum of sizes above one is no more than twice their product
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Sub, ast.FloorDiv)):
        return _number(node.left, known)
    return _number(node.operand, known) if isinstance(node, ast.UnaryOp) else None


def _product(nodes: list[ast.expr], known: Mapping[str, int]) -> int | None:
    numbers = [_number(node, known) for node in nodes]
    return None if None in numbers else math.prod(max(1, number or 1) for number in numbers)


def _input_sizes(
    function: ast.FunctionDef, known: Mapping[str, int], functions: Mapping[str, ast.FunctionDef]
) -> Iterator[int | None]:
    """Yield the size of every tensor that get_inputs makes; None for what cannot be told."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in functions:
            yield None  # it calls a function of its own
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr in ("expand", "repeat", "tile", "repeat_interleave", "view", "reshape", "from_numpy"):
            yield _product(node.args, known) if node.func.attr in ("view", "reshape", "expand") else None
        if node.func.attr in FACTORIES:
            yield _product(node.args, known)
