"""A reduced run too long for registers: read in blocks, once for each reduction that waits for another."""

from __future__ import annotations

from backends.compiler.body import Body, identity
from backends.compiler.expression import Call, Expr, Ref, compute_dtype
from backends.compiler.ir import Op, Pointwise, Reduce, Value
from backends.compiler.text import TYPES

INDENT = "    "


def _online(pending: list[Reduce], body: Body) -> tuple[Reduce, Reduce] | None:
    """Find a maximum and the sum of exp(x - maximum): both come out of one pass (Milakov and Gimelshein, 2018)."""
    made = _made_by(body)
    for high in pending:
        if high.kind != "max_skipping_nan" or not _ready(high.source, body):
            continue
        for total in pending:
            step = made.get(total.source)
            if total.kind == "sum" and isinstance(step, Pointwise) and _is_exp_of_gap(step.expr, high, made):
                return high, total
    return None


def _is_exp_of_gap(x: Expr, high: Reduce, made: dict[Value, Op]) -> bool:
    if not (isinstance(x, Call) and x.function == "exp"):
        return False
    gap: Expr = x.arguments[0]
    step = made.get(gap.value) if isinstance(gap, Ref) else None
    if isinstance(step, Pointwise):
        gap = step.expr
    if not (isinstance(gap, Call) and gap.function == "-"):
        return False
    left, right = gap.arguments
    return isinstance(left, Ref) and left.value is high.source and isinstance(right, Ref) and right.value is high.out


def _online_pass(body: Body, high: Reduce, total: Reduce) -> list[str]:
    names = dict(body.known)
    inside = _block(body, _needed([high.source], body), [high.source], names)
    top, sum_ = body.name(high), body.name(total)
    value, tile, axis = body.masked(high, names), body.frame.tile, body.frame.axis
    inside += [
        f"x_masked = {value}",
        f"new_max = tl.maximum({top}_acc, x_masked)",
        "# lanes that have seen nothing hold -inf, and -inf - -inf would be NaN",
        'shift = tl.where(new_max == float("-inf"), 0.0, new_max)',
        f"{sum_}_acc = {sum_}_acc * tl.exp({top}_acc - shift) + tl.exp(x_masked - shift)",
        f"{top}_acc = new_max",
    ]
    body.known[high.out], body.known[total.out] = top, sum_
    return [
        f'{top}_acc = tl.full({tile}, float("-inf"), tl.float32)',
        f"{sum_}_acc = tl.full({tile}, 0.0, tl.float32)",
        body.frame.loop,
        *(INDENT + line for line in inside),
        f"{top} = tl.max({top}_acc, {axis})",
        f'lane_shift = tl.where({top} == float("-inf"), 0.0, {top})',
        f"{sum_} = tl.sum({sum_}_acc * tl.exp({top}_acc - lane_shift), {axis})",
    ]


def _moments(pending: list[Reduce], body: Body) -> tuple[Reduce, Reduce] | None:
    """Find a mean and the mean of the squared distances to it."""
    made = _made_by(body)
    for middle in pending:
        if middle.kind != "mean" or middle.correction or not _ready(middle.source, body):
            continue
        for spread in pending:
            if spread.kind == "mean" and _is_square_of_gap(spread.source, middle, made):
                return middle, spread
    return None


def _is_square_of_gap(value: Value, middle: Reduce, made: dict[Value, Op]) -> bool:
    step = made.get(value)
    if not (isinstance(step, Pointwise) and isinstance(step.expr, Call) and step.expr.function == "*"):
        return False
    left, right = step.expr.arguments
    if not (isinstance(left, Ref) and isinstance(right, Ref) and left.value is right.value):
        return False
    gap = made.get(left.value)
    if not (isinstance(gap, Pointwise) and isinstance(gap.expr, Call) and gap.expr.function == "-"):
        return False
    x, mean = gap.expr.arguments
    return isinstance(x, Ref) and x.value is middle.source and isinstance(mean, Ref) and mean.value is middle.out


def _moments_pass(body: Body, middle: Reduce, spread: Reduce) -> list[str]:
    """Mean and variance in one pass: each lane sums distances to its own first number, so nothing cancels,
    and the lanes are put together with the formula of Chan, Golub and LeVeque (1979)."""
    names = dict(body.known)
    inside = _block(body, _needed([middle.source], body), [middle.source], names)
    mean, variance, tile, axis = body.name(middle), body.name(spread), body.frame.tile, body.frame.axis
    mask, value = body.use(body.frame.mask_of["all"]), names[middle.source]
    count = " * ".join(a.size for a in body.layout.reduced)
    less = f"({count} - {spread.correction})" if spread.correction else f"({count})" if " * " in count else count
    total = f"({count})" if " * " in count else count
    inside += [
        f"anchor = tl.where(start == 0, {value}, anchor)",
        f"gap = tl.where({mask}, {value} - anchor, 0.0)",
        "seen += tl.where(" + mask + ", 1.0, 0.0)",
        "gaps += gap",
        "squares += gap * gap",
    ]
    body.known[middle.out], body.known[spread.out] = mean, variance
    return [
        "# one pass for mean and variance: every lane measures from its own first number, so nothing cancels",
        f"anchor = tl.zeros({tile}, tl.float32)",
        f"seen = tl.zeros({tile}, tl.float32)",
        f"gaps = tl.zeros({tile}, tl.float32)",
        f"squares = tl.zeros({tile}, tl.float32)",
        body.frame.loop,
        *(INDENT + line for line in inside),
        "lane_gap = gaps / tl.maximum(seen, 1.0)",
        f"base = tl.max(tl.where(seen > 0.0, anchor, float('-inf')), {axis})",
        f"mean_gap = tl.sum(tl.where(seen > 0.0, seen * (anchor - base) + gaps, 0.0), {axis}) / {total}",
        f"{mean} = base + mean_gap",
        "offset = (anchor - base) + (lane_gap - mean_gap)",
        "lane_squares = squares - gaps * lane_gap + seen * offset * offset",
        f"{variance} = tl.sum(tl.where(seen > 0.0, lane_squares, 0.0), {axis}) / {less}",
    ]


def streamed(body: Body) -> list[str]:
    """Write the passes of a streamed reduction and a last one for results of every element."""
    lines: list[str] = []
    pending = [op for op in body.group.ops if isinstance(op, Reduce)]
    _outside(body, lines)
    while pending:
        online, moments = _online(pending, body), _moments(pending, body)
        if pair := online or moments:
            lines += _online_pass(body, *pair) if online else _moments_pass(body, *pair)
            pending = [op for op in pending if op not in pair]
            _outside(body, lines)
            continue
        ready = [op for op in pending if _ready(op.source, body)]
        lines += _pass(body, ready)
        pending = [op for op in pending if op not in ready]
        _outside(body, lines)
    full = [value for value in body.group.outputs if value not in body.known]
    lines += [body.store(value, body.known) for value in body.group.outputs if value in body.known]
    if full:
        lines += _last_pass(body, full)
    return lines


def _made_by(body: Body) -> dict[Value, Op]:
    return {op.out: op for op in body.group.ops}


def _ready(value: Value, body: Body) -> bool:
    """True if the value needs no reduction that is still to come."""
    made = _made_by(body)
    if value in body.known or value not in made:
        return True
    op = made[value]
    return not isinstance(op, Reduce) and all(_ready(source, body) for source in op.inputs)


def _is_line_level(value: Value, body: Body) -> bool:
    return not set(body.layout.covered(value)) & set(body.layout.reduced)


def _outside(body: Body, lines: list[str]) -> None:
    """Compute, once a line, what needs finished reductions only."""
    made = _made_by(body)
    for op in body.group.ops:
        if not isinstance(op, Pointwise) or op.out in body.known or not _is_line_level(op.out, body):
            continue
        missing = [source for source in op.inputs if source not in body.known]
        if any(source in made or not _is_line_level(source, body) for source in missing):
            continue
        lines += [body.load(source, body.known) for source in op.inputs if source not in body.known]
        lines.append(body.compute(op, body.known))


def _needed(values: list[Value], body: Body) -> list[Op]:
    made, found = _made_by(body), set()

    def visit(value: Value) -> None:
        op = made.get(value)
        if op is None or value in body.known or op in found:
            return
        found.add(op)
        for source in op.inputs:
            visit(source)

    for value in values:
        visit(value)
    return [op for op in body.group.ops if op in found]


def _block(body: Body, ops: list[Op], also: list[Value], names: dict[Value, str]) -> list[str]:
    """The lines inside a loop: coordinates, loads, operations."""
    lines = list(body.frame.step)
    loads: list[str] = []
    work: list[str] = []
    for value in [source for op in ops for source in op.inputs] + also:
        if value not in names and value not in _made_by(body):
            loads.append(body.load(value, names))
    for op in ops:
        assert isinstance(op, Pointwise)
        work.append(body.compute(op, names))
    return [*lines, "@masks", *loads, *work]


def _pass(body: Body, ready: list[Reduce]) -> list[str]:
    lines = [line for op in ready for line in _start(body, op)]
    names = dict(body.known)
    inside = _block(body, _needed([op.source for op in ready], body), [op.source for op in ready], names)
    ends: list[str] = []
    for op in ready:
        update, finish = _accumulate(body, op, names)
        inside += update
        ends += finish
        body.known[op.out] = body.name(op)
    return [*lines, body.frame.loop, *(INDENT + line for line in inside), *ends]


def _start(body: Body, op: Reduce) -> list[str]:
    name = body.name(op)
    dtype = TYPES[compute_dtype(op.out.dtype if op.kind in ("sum", "mean") else op.source.dtype)]
    lines = [f"{name}_acc = tl.full({body.frame.tile}, {identity(op)}, {dtype})"]
    if op.kind in ("argmax", "argmin"):
        lines.append(f"{name}_at = tl.zeros({body.frame.tile}, tl.int32)")
    return lines


def _accumulate(body: Body, op: Reduce, names: dict[Value, str]) -> tuple[list[str], list[str]]:
    name = body.name(op)
    acc, value = f"{name}_acc", body.masked(op, names)
    if op.kind in ("sum", "mean"):
        return [f"{acc} += {value}"], body.finish(op, name, acc)
    if op.kind in ("argmax", "argmin"):
        return _track(body, op, name, acc, value)
    function = "tl.maximum" if op.kind.startswith("max") else "tl.minimum"
    floats = op.source.dtype.is_floating_point and op.kind != "max_skipping_nan"
    nan = ", propagate_nan=tl.PropagateNan.ALL" if floats else ""
    return [f"{acc} = {function}({acc}, {value}{nan})"], body.finish(op, name, acc)


def _track(body: Body, op: Reduce, name: str, acc: str, value: str) -> tuple[list[str], list[str]]:
    """Keep each lane's best value and where it was; a first NaN beats everything."""
    sign = ">" if op.kind == "argmax" else "<"
    better = f"({name}_new {sign} {acc})"
    if op.source.dtype.is_floating_point:
        better += f" | (({name}_new != {name}_new) & ({acc} == {acc}))"
    place = body._place_name()
    update = [
        f"{name}_new = {value}",
        f"{name}_better = {better}",
        f"{acc} = tl.where({name}_better, {name}_new, {acc})",
        f"{name}_at = tl.where({name}_better, {place}.to(tl.int32), {name}_at)",
    ]
    axis = body.frame.axis
    function = "tl.max" if op.kind == "argmax" else "tl.min"
    hit = f"{acc} == {function}({acc}, {axis})"
    finish = []
    if op.source.dtype.is_floating_point:
        finish.append(f"has_nan = tl.max(({acc} != {acc}).to(tl.int32), {axis}) > 0")
        hit = f"tl.where(has_nan, {acc} != {acc}, {hit})"
    finish.append(f"{name} = tl.min(tl.where({hit}, {name}_at, 2147483647), {axis}).to(tl.int64)")
    return update, finish


def _last_pass(body: Body, values: list[Value]) -> list[str]:
    names = dict(body.known)
    inside = _block(body, _needed(values, body), [], names)
    inside += [body.store(value, names) for value in values]
    return [body.frame.loop, *(INDENT + line for line in inside)]


