"""Two reductions from one pass, where the second is written over the result of the first.

A softmax's maximum and sum of exponentials, and a normalisation's mean and variance: each pass saved is
one reading of memory.
"""

from __future__ import annotations

from backends.compiler.body import Body
from backends.compiler.expression import Call, Expr, Ref
from backends.compiler.ir import Op, Pointwise, Reduce, Value
from backends.compiler.passes import inside, is_ready, loop, made_by
from backends.compiler.reducing import divisor, masked


def one_pass(pending: list[Reduce], body: Body) -> tuple[tuple[Reduce, Reduce], list[str]] | None:
    """Find two reductions that one pass can give, and write that pass."""
    if pair := _softmax_pair(pending, body):
        return pair, _softmax_pass(body, *pair)
    if pair := _moments_pair(pending, body):
        return pair, _moments_pass(body, *pair)
    return None


def _is_gap(x: Expr, left: Value, right: Value) -> bool:
    """Tell whether an expression is left - right."""
    if not (isinstance(x, Call) and x.function == "-"):
        return False
    one, other = x.arguments
    return isinstance(one, Ref) and one.value is left and isinstance(other, Ref) and other.value is right


def _expression(value: Value, made: dict[Value, Op]) -> Expr | None:
    step = made.get(value)
    return step.expr if isinstance(step, Pointwise) else None


# ---- maximum and sum of exponentials ------------------------------------------------------------


def _softmax_pair(pending: list[Reduce], body: Body) -> tuple[Reduce, Reduce] | None:
    """Find a maximum and the sum of exp(x - maximum) (Milakov and Gimelshein, 2018)."""
    made = made_by(body)
    for high in pending:
        if high.kind == "max_skipping_nan" and is_ready(high.source, body):
            for total in pending:
                if total.kind == "sum" and _is_exp_of_gap(_expression(total.source, made), high, made):
                    return high, total
    return None


def _is_exp_of_gap(x: Expr | None, high: Reduce, made: dict[Value, Op]) -> bool:
    if not (isinstance(x, Call) and x.function == "exp"):
        return False
    gap = x.arguments[0]
    written = _expression(gap.value, made) if isinstance(gap, Ref) else None
    return _is_gap(written or gap, high.source, high.out)


def _softmax_pass(body: Body, high: Reduce, total: Reduce) -> list[str]:
    names = dict(body.known)
    lines = inside(body, [high.source], names)
    top, summed = body.name(high), body.name(total)
    tile, axis = body.frame.tile, body.frame.axis
    lines += [
        f"x_masked = {masked(body, high, names)}",
        f"new_max = tl.maximum({top}_acc, x_masked)",
        "# lanes that have seen nothing hold -inf, and -inf - -inf would be NaN",
        'shift = tl.where(new_max == float("-inf"), 0.0, new_max)',
        f"{summed}_acc = {summed}_acc * tl.exp({top}_acc - shift) + tl.exp(x_masked - shift)",
        f"{top}_acc = new_max",
    ]
    body.known[high.out], body.known[total.out] = top, summed
    return [
        f'{top}_acc = tl.full({tile}, float("-inf"), tl.float32)',
        f"{summed}_acc = tl.full({tile}, 0.0, tl.float32)",
        *loop(body, lines),
        f"{top} = tl.max({top}_acc, {axis})",
        f'lane_shift = tl.where({top} == float("-inf"), 0.0, {top})',
        f"{summed} = tl.sum({summed}_acc * tl.exp({top}_acc - lane_shift), {axis})",
    ]


# ---- mean and variance --------------------------------------------------------------------------


def _moments_pair(pending: list[Reduce], body: Body) -> tuple[Reduce, Reduce] | None:
    """Find a mean and the mean of the squared distances to it."""
    made = made_by(body)
    for middle in pending:
        if middle.kind == "mean" and not middle.correction and is_ready(middle.source, body):
            for spread in pending:
                if spread.kind == "mean" and _is_square_of_gap(_expression(spread.source, made), middle, made):
                    return middle, spread
    return None


def _is_square_of_gap(x: Expr | None, middle: Reduce, made: dict[Value, Op]) -> bool:
    if not (isinstance(x, Call) and x.function == "*"):
        return False
    left, right = x.arguments
    if not (isinstance(left, Ref) and isinstance(right, Ref) and left.value is right.value):
        return False
    gap = _expression(left.value, made)
    return gap is not None and _is_gap(gap, middle.source, middle.out)


def _moments_pass(body: Body, middle: Reduce, spread: Reduce) -> list[str]:
    """Let each lane sum distances to its own first number, so that nothing cancels, and put the lanes
    together with the formula of Chan, Golub and LeVeque (1979)."""
    names = dict(body.known)
    lines = inside(body, [middle.source], names)
    mean, variance, tile, axis = body.name(middle), body.name(spread), body.frame.tile, body.frame.axis
    mask, value, count = body.mask("all"), names[middle.source], body.layout.length
    lines += [
        f"anchor = tl.where(start == 0, {value}, anchor)",
        f"gap = tl.where({mask}, {value} - anchor, 0.0)",
        f"seen += tl.where({mask}, 1.0, 0.0)",
        "gaps += gap",
        "squares += gap * gap",
    ]
    body.known[middle.out], body.known[spread.out] = mean, variance
    return [
        "# mean and variance in one pass: a lane measures from its own first number, so nothing cancels",
        *(f"{name} = tl.zeros({tile}, tl.float32)" for name in ("anchor", "seen", "gaps", "squares")),
        *loop(body, lines),
        "lane_gap = gaps / tl.maximum(seen, 1.0)",
        f'base = tl.max(tl.where(seen > 0.0, anchor, float("-inf")), {axis})',
        "from_base = tl.where(seen > 0.0, seen * (anchor - base) + gaps, 0.0)",
        f"mean_gap = tl.sum(from_base, {axis}) / {divisor(count)}",
        f"{mean} = base + mean_gap",
        "offset = (anchor - base) + (lane_gap - mean_gap)",
        "lane_squares = squares - gaps * lane_gap + seen * offset * offset",
        f"{variance} = tl.sum(tl.where(seen > 0.0, lane_squares, 0.0), {axis}) / {divisor(count, spread.correction)}",
    ]
