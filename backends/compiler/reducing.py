"""Reductions of a tile: the neutral element outside the tensor, NaN as in PyTorch, the place of the best."""

from __future__ import annotations

import torch

from backends.compiler.body import Body
from backends.compiler.expression import Call, Expr, Literal, Ref, compute_dtype
from backends.compiler.group import Group
from backends.compiler.ir import Pointwise, Reduce, Value
from backends.compiler.text import literal

NAN_NOTE = "# a NaN anywhere makes the result NaN, as in PyTorch; the reduction alone would skip it"
POSITIONS = ("argmax", "argmin")
SUMS = ("sum", "mean")
CARRYING_NAN = (*SUMS, "prod", "max_skipping_nan")
"""Kinds in which a NaN goes its way, or needs none."""


def accumulator_dtype(op: Reduce) -> torch.dtype:
    """Return the dtype a reduction is carried in."""
    return compute_dtype(op.out.dtype if op.kind in (*SUMS, "prod") else op.source.dtype)


def over(op: Reduce) -> str:
    """Name Triton's function that reduces along an axis."""
    return "tl.sum" if op.kind in SUMS else "tl.max" if op.kind in ("max", "max_skipping_nan", "argmax") else "tl.min"


def keeps_nan(op: Reduce) -> bool:
    """Tell whether a NaN in the source must reach the result."""
    return op.kind not in CARRYING_NAN and op.source.dtype.is_floating_point


def masked(body: Body, op: Reduce, names: dict[Value, str]) -> str:
    """Write the source with what lies outside the tensor replaced by the reduction's neutral element."""
    source = names[op.source]
    if op.kind in SUMS and _is_zero_outside(op.source, body.group):
        return source
    return f"tl.where({body.mask('all')}, {source}, {identity(op)})"


def updated(op: Reduce, acc: str, value: str) -> str:
    """Write how a block's values enter the accumulator."""
    if op.kind in (*SUMS, "prod"):
        return f"{acc} {'*' if op.kind == 'prod' else '+'}= {value}"
    nan = ", propagate_nan=tl.PropagateNan.ALL" if keeps_nan(op) else ""
    function = "tl.maximum" if over(op) == "tl.max" else "tl.minimum"
    return f"{acc} = {function}({acc}, {value}{nan})"


def finish(body: Body, op: Reduce, result: str, tile: str, count: str) -> list[str]:
    """Reduce a tile of values that are neutral outside the tensor, the mean's over `count` elements."""
    if op.kind in POSITIONS:
        return _position(body, op, result, tile)
    if op.kind != "mean":
        return combined(body, op, result, tile)
    return [f"{result} = tl.sum({tile}, {body.frame.axis}) / {divisor(count, op.correction)}"]


def divisor(count: str, correction: float = 0.0) -> str:
    """Write the number a sum is divided by, in brackets where it needs them."""
    if correction:
        return f"({count} - {literal(correction, torch.float32)})"
    return f"({count})" if " " in count else count


def combined(body: Body, op: Reduce, result: str, tile: str) -> list[str]:
    """Reduce a tile along its axis, a mean's as the sum it is divided from."""
    axis = body.frame.axis
    if op.kind == "prod":
        return [f"{result} = tl.reduce({tile}, {axis}, combine_fn=product_of)"]
    if not keeps_nan(op):
        return [f"{result} = {over(op)}({tile}, {axis})"]
    values = tile if tile.isidentifier() else body.signature.names.unused(f"{result}_of")
    return [
        *([f"{values} = {tile}"] if values != tile else []),
        NAN_NOTE,
        f"has_nan = tl.max(({values} != {values}).to(tl.int32), {axis}) > 0",
        f'{result} = tl.where(has_nan, float("nan"), {over(op)}({values}, {axis}))',
    ]


def _position(body: Body, op: Reduce, result: str, tile: str) -> list[str]:
    """The first place that holds the best value; the first NaN wins, as in PyTorch."""
    names, axis = body.signature.names, body.frame.axis
    values, best = names.unused("candidates"), names.unused("best")
    lines, hit = [f"{values} = {tile}"], f"{values} == {best}"
    if op.source.dtype.is_floating_point:
        lines.append(f"has_nan = tl.max(({values} != {values}).to(tl.int32), {axis}) > 0")
        hit = f"tl.where(has_nan, {values} != {values}, {hit})"
    lines.append(f"{best} = {over(op)}({values}, {axis})")
    hit = f"tl.where({body.mask('all')} & ({hit}), {body.layout.place}, 2147483647)"
    return [*lines, f"{result} = tl.min({hit}, {axis}).to(tl.int64)"]


def identity(op: Reduce) -> str:
    """Write the number that changes nothing."""
    dtype = compute_dtype(op.source.dtype)
    if op.kind in (*SUMS, "prod"):
        return literal(int(op.kind == "prod"), dtype)
    is_min = op.kind in ("min", "argmin")
    if dtype.is_floating_point:
        return 'float("inf")' if is_min else 'float("-inf")'
    limits = torch.iinfo(dtype)
    return str(limits.max if is_min else limits.min)


def _is_zero_outside(value: Value, group: Group) -> bool:
    """Tell whether lanes outside the tensor hold 0 already: loads put it there, and products keep it."""
    if value in group.leaves:
        return value.shape == group.domain
    return isinstance(value.op, Pointwise) and _is_zero(value.op.expr, group)


def _is_zero(x: Expr, group: Group) -> bool:
    if isinstance(x, Ref):
        return _is_zero_outside(x.value, group)
    if isinstance(x, Literal):
        return x.number == 0
    if isinstance(x, Call):
        zeros = [_is_zero(argument, group) for argument in x.arguments]
        return x.function in ("*", "+", "-", "neg", "abs", "cast") and all(zeros)  # of a product, one may be infinite
    return False
