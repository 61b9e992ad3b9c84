"""After fusion: what each group stores, what it is called after, and small steps written into their readers."""

from __future__ import annotations

from backends.compiler.expression import Ref, substitute, walk
from backends.compiler.group import Group
from backends.compiler.ir import Op, Pointwise, Value, is_written_back, root

INLINE = 10
"""Largest expression, in nodes, that one assignment may hold."""


def find_outputs(groups: list[Group], returned: list[Value]) -> None:
    """Give every kernel its results, its steps' names and the user's lines it stands for."""
    leaving = {root(value) for value in returned} | {root(value) for group in groups for value in group.leaves}
    for group in groups:
        if group.kind == "extern":
            continue
        group.outputs = [op.out for op in group.ops if op.out in leaving or op.has_effect]
        every = [part for op in group.ops for part in (*_absorbed(op), op)]
        group.steps = [op.label for op in every if not op.label.startswith("_")]
        made = [value.op.label for value in group.outputs if value.op is not None and not is_written_back(value)]
        group.steps = group.steps or [label.strip("_") for label in made or [group.ops[-1].label]]
        group.lines = list(dict.fromkeys(op.origin.line for op in every if op.origin.line))
        _inline(group)


def _absorbed(op: Op) -> tuple[Op, ...]:
    return op.absorbed if isinstance(op, Pointwise) else ()


def _inline(group: Group) -> None:
    """Write a step into the one that reads it, where it is read once and on the same line of the user's."""
    for op in list(group.ops):
        if not isinstance(op, Pointwise) or op.out in group.outputs:
            continue
        readers = [other for other in group.ops if op.out in other.inputs]
        if len(readers) != 1 or not isinstance(readers[0], Pointwise):
            continue
        reader = readers[0]
        reads = sum(isinstance(node, Ref) and node.value is op.out for node in walk(reader.expr))
        size = len(walk(op.expr)) + len(walk(reader.expr))
        if (op.extents is not None or op.claims) and op.out.shape != reader.out.shape:
            continue
        if reads == 1 and size <= INLINE and op.origin.lineno == reader.origin.lineno:
            reader.expr = substitute(reader.expr, op.out, op.expr)
            reader.extents, reader.coordinates = reader.extents or op.extents, reader.coordinates or op.coordinates
            reader.claims += op.claims
            group.ops.remove(op)
