"""What a pass over a streamed run needs: which values are ready, and the lines inside its loop."""

from __future__ import annotations

from backends.compiler.body import Body
from backends.compiler.ir import Op, Pointwise, Reduce, Value
from backends.compiler.margin import TAB

MASKS = "@masks"
"""Stands inside a loop where the masks that move with it are to be defined."""


def made_by(body: Body) -> dict[Value, Op]:
    """Map each value of the group to the operation that makes it."""
    return {op.out: op for op in body.group.ops}


def is_ready(value: Value, body: Body) -> bool:
    """Tell whether a value needs no reduction that is still to come."""
    op = made_by(body).get(value)
    if value in body.known or op is None:
        return True
    return not isinstance(op, Reduce) and all(is_ready(source, body) for source in op.in_place)


def outside(body: Body) -> list[str]:
    """Compute, once a line, what needs finished reductions only."""
    made, lines = made_by(body), []
    for op in body.group.ops:
        if not isinstance(op, Pointwise) or op.out in body.known or not _is_line_level(op.out, body):
            continue
        missing = [source for source in op.in_place if source not in body.known]
        if any(source in made or not _is_line_level(source, body) for source in missing):
            continue
        lines += [body.load(source, body.known) for source in missing]
        lines += body.steps(op, body.known)
    return lines


def _is_line_level(value: Value, body: Body) -> bool:
    return not set(body.layout.covered(value)) & set(body.layout.reduced)


def inside(body: Body, wanted: list[Value], names: dict[Value, str]) -> list[str]:
    """Write a loop's lines up to the wanted values: coordinates, loads, operations."""
    made = made_by(body)
    needed = _needed(wanted, body)
    read = dict.fromkeys([*(source for op in needed for source in op.in_place), *wanted])
    loads = [body.load(value, names) for value in read if value not in names and value not in made]
    return [*body.frame.step, MASKS, *loads, *(line for op in needed for line in body.steps(op, names))]


def _needed(values: list[Value], body: Body) -> list[Pointwise]:
    """The operations that a block computes for these values, in order."""
    made = made_by(body)
    found: set[Op] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        op = made.get(value)
        if op is not None and value not in body.known and op not in found:
            found.add(op)
            waiting += op.in_place
    return [op for op in body.group.ops if op in found and isinstance(op, Pointwise)]


def loop(body: Body, lines: list[str]) -> list[str]:
    """Put lines into the loop over the reduced run."""
    return [body.frame.loop, *(TAB + line for line in lines)]
