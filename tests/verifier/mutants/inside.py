"""What goes wrong inside a Triton kernel: masks, indices, constants, operators, reductions, loops, stores."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Found = Iterator[tuple[str, ast.AST, str]]

_COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
_OPERATORS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.Mod: "//", ast.FloorDiv: "%", ast.BitAnd: "|",
}  # fmt: skip
_FUNCTIONS = {
    "exp": "exp2", "exp2": "exp", "log": "log2", "log2": "log", "sqrt": "abs", "rsqrt": "sqrt", "sigmoid": "exp",
    "maximum": "minimum", "minimum": "maximum", "sum": "max", "max": "min", "min": "max", "sin": "cos", "cos": "sin",
    "abs": "exp", "tanh": "erf", "erf": "tanh", "floor": "ceil", "argmax": "argmin", "argmin": "argmax",
}  # fmt: skip
_REDUCTIONS = {"sum", "max", "min", "argmax", "argmin", "cumsum"}


def masks(node: ast.AST) -> Found:
    """Drop a mask, half of it, or what the lanes behind it hold."""
    if _called(node) not in ("load", "store") or not isinstance(node, ast.Call):
        return
    mask, other = _keyword(node, "mask"), _keyword(node, "other")
    if mask is not None:
        kept = [*map(ast.unparse, node.args), *(_text(k) for k in node.keywords if k.arg not in ("mask", "other"))]
        yield "mask dropped", node, f"{ast.unparse(node.func)}({', '.join(kept)})"
        if isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.BitAnd):
            yield "half a mask", mask, ast.unparse(mask.left)
            yield "half a mask", mask, ast.unparse(mask.right)
    if other is not None:
        yield "other value", other, "0.0" if "inf" in ast.unparse(other) or "1e" in ast.unparse(other) else "1.0"


def comparisons(node: ast.AST) -> Found:
    """Take a bound in or leave it out; shift it by one."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        yield "comparison", node, f"{left} {_COMPARISONS[type(node.ops[0])]} {right}"
        yield "bound", node.comparators[0], f"({right} - 1)"


def arithmetic(node: ast.AST) -> Found:
    """Take another operator, swap operands that do not commute, forget what keeps a division or a root safe."""
    if not isinstance(node, ast.BinOp) or type(node.op) not in _OPERATORS:
        return
    left, right = ast.unparse(node.left), ast.unparse(node.right)
    yield "operator", node, f"(({left}) {_OPERATORS[type(node.op)]} ({right}))"
    if isinstance(node.op, (ast.Sub, ast.Div)):
        yield "operands swapped", node, f"({right}) {_sign(node.op)} ({left})"
    if isinstance(node.op, ast.Add):
        for one, other in ((node.left, right), (node.right, left)):
            if "eps" in ast.unparse(one) or (
                isinstance(one, ast.Constant) and isinstance(one.value, float) and 0 < abs(one.value) < 1e-3
            ):
                yield "eps dropped", node, f"({other})"
    if isinstance(node.op, ast.Mult) and isinstance(node.right, ast.Name):
        yield "stride", node.right, f"({right} + 1)"


def constants(node: ast.AST) -> Found:
    """Take another number: a tenth more, or one more."""
    if isinstance(node, ast.Constant) and type(node.value) is float and node.value:
        yield "constant", node, repr(node.value * 1.1)
    elif isinstance(node, ast.BinOp):
        for side in (node.left, node.right):
            if isinstance(side, ast.Constant) and type(side.value) is int:
                yield "constant", side, str(side.value + 1)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "sign", node, f"({ast.unparse(node.operand)})"


def indices(node: ast.AST) -> Found:
    """Begin a range or the programs one too late, read another axis of the grid, turn a row into a column."""
    if _called(node) == "arange" and isinstance(node, ast.Call):
        yield "index", node, f"({ast.unparse(node)} + 1)"
    if _called(node) == "program_id" and isinstance(node, ast.Call):
        axis = ast.unparse(node.args[0])
        yield "index", node, f"({ast.unparse(node)} + 1)"
        yield "grid axis", node.args[0], "1" if axis == "0" else "0"
    if isinstance(node, ast.Subscript) and ast.unparse(node.slice) in (":, None", "(slice(None), None)"):
        yield "transposed", node, f"{ast.unparse(node.value)}[None, :]"


def functions(node: ast.AST) -> Found:
    """Call a neighbour, reduce over another axis, take the other branch."""
    name = _called(node)
    if name is None or not isinstance(node, ast.Call):
        return
    if name in _FUNCTIONS:
        yield "reduction" if name in _REDUCTIONS else "function", node.func, f"tl.{_FUNCTIONS[name]}"
    axis = _keyword(node, "axis") or (node.args[1] if name in _REDUCTIONS and len(node.args) > 1 else None)
    if axis is not None:
        yield "axis", axis, "1" if ast.unparse(axis) == "0" else "0"
    if name == "where":
        condition, one, other = map(ast.unparse, node.args)
        yield "branches swapped", node, f"tl.where({condition}, {other}, {one})"
        yield "branch always taken", node, f"({one})"


def loops(node: ast.AST) -> Found:
    """Leave out the first or the last turn, forget what was summed so far."""
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and len(node.iter.args) == 3:
        start, stop, step = map(ast.unparse, node.iter.args)
        yield "loop", node.iter.args[0], f"{start} + {step}"
        yield "loop", node.iter.args[1], f"{stop} - {step}"
    if isinstance(node, ast.AugAssign):
        yield "accumulator", node, f"{ast.unparse(node.target)} = {ast.unparse(node.value)}"


def stores(node: ast.AST) -> Found:
    """Store nothing, or compute in half precision what is loaded."""
    if isinstance(node, ast.Expr) and _called(node.value) == "store":
        yield "store dropped", node, "pass"
    if isinstance(node, ast.Assign) and any(_called(part) == "load" for part in ast.walk(node.value)):
        yield "precision", node.value, f"({ast.unparse(node.value)}).to(tl.float16).to(tl.float32)"


RULES = (masks, comparisons, arithmetic, constants, indices, functions, loops, stores)


def _called(node: ast.AST) -> str | None:
    """Return the name behind `tl.`, for a call of the language."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "tl":
        return node.func.attr
    return None


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _text(keyword: ast.keyword) -> str:
    return f"{keyword.arg}={ast.unparse(keyword.value)}"


def _sign(operator: ast.operator) -> str:
    return "-" if isinstance(operator, ast.Sub) else "/"
