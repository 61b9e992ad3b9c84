"""A reduced run too long for registers: read in blocks, once for each reduction that waits for another."""

from __future__ import annotations

from backends.compiler.body import Body
from backends.compiler.ir import Reduce, Value
from backends.compiler.onepass import one_pass
from backends.compiler.passes import inside, is_ready, loop, outside
from backends.compiler.reducing import (
    POSITIONS,
    accumulator_dtype,
    finish,
    identity,
    keeps_nan,
    masked,
    over,
    updated,
)
from backends.compiler.text import TYPES


def streamed(body: Body) -> list[str]:
    """Write the passes of a streamed reduction and a last one for results of every element."""
    lines = outside(body)
    pending = body.group.reductions
    while pending:
        if found := one_pass(pending, body):
            done, written = list(found[0]), found[1]
        else:
            done = [op for op in pending if is_ready(op.source, body)]
            written = _pass(body, done)
        pending = [op for op in pending if op not in done]
        lines += [*written, *outside(body)]
    full = [value for value in body.group.outputs if value not in body.known]
    lines += [body.store(value, body.known) for value in body.group.outputs if value in body.known]
    return [*lines, *(_last_pass(body, full) if full else [])]


def _pass(body: Body, ready: list[Reduce]) -> list[str]:
    starts = [line for op in ready for line in accumulator(body, op)]
    names = dict(body.known)
    lines = inside(body, [op.source for op in ready], names)
    ends: list[str] = []
    for op in ready:
        update, end = _accumulate(body, op, names)
        lines += update
        ends += end
        body.known[op.out] = body.name(op)
    return [*starts, *loop(body, lines), *ends]


def accumulator(body: Body, op: Reduce) -> list[str]:
    """Start a reduction: every lane holds the number that changes nothing."""
    name, tile = body.name(op), body.frame.tile
    lines = [f"{name}_acc = tl.full({tile}, {identity(op)}, {TYPES[accumulator_dtype(op)]})"]
    if op.kind in POSITIONS:
        lines.append(f"{name}_at = tl.zeros({tile}, tl.int32)")
    return lines


def _accumulate(body: Body, op: Reduce, names: dict[Value, str]) -> tuple[list[str], list[str]]:
    name = body.name(op)
    value = masked(body, op, names)
    if op.kind in POSITIONS:
        return _track(body, op, name, value)
    return [updated(op, f"{name}_acc", value)], finish(body, op, name, f"{name}_acc", body.layout.length)


def _track(body: Body, op: Reduce, name: str, value: str) -> tuple[list[str], list[str]]:
    """Keep each lane's best value and where it was; a first NaN beats everything."""
    acc, new, axis = f"{name}_acc", f"{name}_new", body.frame.axis
    better = f"({new} {'>' if op.kind == 'argmax' else '<'} {acc})"
    if keeps_nan(op):
        better += f" | (({new} != {new}) & ({acc} == {acc}))"
    update = [
        f"{new} = {value}",
        f"{name}_better = {better}",
        f"{acc} = tl.where({name}_better, {new}, {acc})",
        f"{name}_at = tl.where({name}_better, {body.layout.place}.to(tl.int32), {name}_at)",
    ]
    hit, end = f"{acc} == {over(op)}({acc}, {axis})", []
    if keeps_nan(op):
        end.append(f"has_nan = tl.max(({acc} != {acc}).to(tl.int32), {axis}) > 0")
        hit = f"tl.where(has_nan, {acc} != {acc}, {hit})"
    end.append(f"{name} = tl.min(tl.where({hit}, {name}_at, 2147483647), {axis}).to(tl.int64)")
    return update, end


def _last_pass(body: Body, values: list[Value]) -> list[str]:
    names = dict(body.known)
    lines = inside(body, values, names)
    return loop(body, [*lines, *(body.store(value, names) for value in values)])
