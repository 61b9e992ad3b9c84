"""One fusion pass: operations in order join the kernel that made what they read, where that costs no extra pass.

A group is one kernel to be (or one call that stays on the host). Joining is allowed when the operation's
shape is the group's own; a group never reads what a later group makes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from backends.compiler.expression import Ref, substitute, walk
from backends.compiler.ir import ONE, Extern, MatMul, Op, Pointwise, Reduce, Shape, Value, View

SPLIT_ROWS, SPLIT_COLUMNS = 32, 16384
"""A reduction of fewer rows than this, each longer than that, would leave most of a GPU idle: two stages."""

POSITIONS = ("argmax", "argmin")


@dataclass(eq=False)
class Group:
    """Operations of one kernel over `domain`; `dims` are the reduced ones; `kind` is
    "elementwise", "reduction", "split" (a two-stage reduction), "matmul" or "extern"."""

    kind: str
    domain: Shape
    epoch: int
    ops: list[Op] = field(default_factory=list)
    dims: tuple[int, ...] = ()
    outputs: list[Value] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)  # PyTorch's names of what is computed, in order
    lines: list[str] = field(default_factory=list)  # the user's lines it stands for
    is_shared: bool = False  # one text for several places: its names come from roles, not from one place's lines

    @property
    def row_shape(self) -> Shape:
        """The domain with the reduced dimensions gone to 1."""
        return tuple(ONE if index in self.dims else size for index, size in enumerate(self.domain))

    @property
    def values(self) -> set[Value]:
        """Everything made here."""
        return {op.out for op in self.ops}

    @property
    def leaves(self) -> list[Value]:
        """What is read from memory, in order of first use."""
        made = self.values
        return [
            value for value in dict.fromkeys(value for op in self.ops for value in op.inputs) if value not in made
        ]


def root(value: Value) -> Value:
    """Return the tensor a chain of views looks at."""
    while isinstance(value.op, View):
        value = value.op.source
    return value


def fuse(ops: list[Op], returned: list[Value]) -> list[Group]:
    """Group the operations that are needed for the values returned."""
    ops = _live(ops, returned)
    groups: list[Group] = []
    owner: dict[Value, Group] = {}
    epoch = 0
    for op in ops:
        if isinstance(op, View):
            continue
        if isinstance(op, Extern):
            group = Group("extern", op.out.shape, epoch, [op])
            epoch += op.is_barrier
            groups.append(group)
        else:
            group = _place(op, groups, owner, epoch)
        for value in [op.out, *(op.results if isinstance(op, Extern) else [])]:
            owner[value] = group
        for moved in group.ops:
            owner.setdefault(moved.out, group)
    _find_outputs(groups, returned)
    return groups


def _live(ops: list[Op], returned: list[Value]) -> list[Op]:
    needed, live = set(returned), []
    for op in reversed(ops):
        made = {op.out, *(op.results if isinstance(op, Extern) else [])}
        if made & needed or (isinstance(op, Extern) and op.is_barrier):
            live.append(op)
            needed.update(op.inputs)
    return live[::-1]


def _place(op: Op, groups: list[Group], owner: dict[Value, Group], epoch: int) -> Group:
    producers = {owner[root(value)] for value in op.inputs if root(value) in owner}
    latest = max(producers, key=groups.index, default=None)
    if latest is None and isinstance(op, Reduce):
        latest = next((g for g in reversed(groups) if op.source in g.leaves and _joins(op, g, epoch)), None)
    if latest is not None and _joins(op, latest, epoch):
        _absorb(latest, [g for g in producers if g is not latest], groups, owner)
        _grow(latest, op)
        return latest
    kind = {Pointwise: "elementwise", Reduce: "reduction", MatMul: "matmul"}[type(op)]
    group = Group(kind, op.source.shape if isinstance(op, Reduce) else op.out.shape, epoch)
    if kind != "matmul":
        for value in op.inputs:
            _recompute(value, group, owner)
    _grow(group, op)
    groups.append(group)
    # several producers of this one shape need no memory between them and here
    if isinstance(op, Pointwise):
        _absorb(group, list(producers), groups, owner)
    return group


def _recompute(value: Value, group: Group, owner: dict[Value, Group]) -> None:
    """Compute again what a two-stage reduction computed on its way: cheaper than a trip through memory."""
    source = owner.get(value)
    op = value.op
    if source is None or source.kind != "split" or value in group.values or value.shape != group.domain:
        return
    if isinstance(op, Pointwise) and value in source.values and source.epoch == group.epoch:
        for below in op.inputs:
            _recompute(below, group, owner)
        group.ops.append(Pointwise(op.label, op.out, op.origin, op.expr))


def _grow(group: Group, op: Op) -> None:
    group.ops.append(op)
    if isinstance(op, Reduce) and group.kind == "elementwise":
        group.kind = "reduction"
    if isinstance(op, Reduce) and group.kind == "reduction":
        group.dims = op.dims
        places = any(isinstance(other, Reduce) and other.kind in POSITIONS for other in group.ops)
        is_plain = not places and not any(_after(other, group) for other in group.ops)
        if is_plain and _too_few_rows(group.domain, op.dims):
            group.kind = "split"


def _after(op: Op, group: Group) -> bool:
    """True for an operation that reads a reduced result."""
    reduced = _reduced(group)
    return any(value in reduced for value in op.inputs)


def _reduced(group: Group) -> set[Value]:
    """Results of the group's reductions, and what was computed from them."""
    found: set[Value] = set()
    for op in group.ops:
        if isinstance(op, Reduce) or any(value in found for value in op.inputs):
            found.add(op.out)
    return found


def _too_few_rows(domain: Shape, dims: tuple[int, ...]) -> bool:
    rows = math.prod(size.hint for index, size in enumerate(domain) if index not in dims)
    columns = math.prod(domain[index].hint for index in dims)
    trailing = dims == tuple(range(len(domain) - len(dims), len(domain)))
    return trailing and rows < SPLIT_ROWS and columns > SPLIT_COLUMNS


def _joins(op: Op, group: Group, epoch: int) -> bool:
    if group.epoch != epoch or group.kind == "extern" or isinstance(op, MatMul):
        return False
    made = group.values
    if any(isinstance(value.op, View) and root(value) in made for value in op.inputs):
        return False  # a view of something that is not in memory yet
    if isinstance(op, Reduce):
        return _reduce_joins(op, group)
    if group.kind in ("elementwise", "matmul"):
        return op.out.shape == group.domain
    after = any(value in _reduced(group) for value in op.inputs)
    if group.kind == "split":
        return op.out.shape == (group.row_shape if after else group.domain)
    return op.out.shape in (group.domain, group.row_shape)


def _reduce_joins(op: Reduce, group: Group) -> bool:
    if op.source.shape != group.domain:
        return False
    if group.kind == "elementwise":
        return True
    if group.kind == "split":
        return op.kind not in POSITIONS and op.dims == group.dims and op.source not in _reduced(group)
    return group.kind == "reduction" and op.dims == group.dims


def _absorb(into: Group, others: list[Group], groups: list[Group], owner: dict[Value, Group]) -> None:
    """Compute in `into` what earlier groups of the same shape made, if nothing in between reads it."""
    for other in sorted(others, key=groups.index, reverse=True):
        if other.epoch != into.epoch or other.domain != into.domain or not _compatible(into, other):
            continue
        if other.kind == "split" and any(v in _reduced(other) for op in into.ops for v in op.inputs):
            continue  # stage one cannot wait for another's stage two
        between = groups[groups.index(other) + 1 : groups.index(into)]
        made = other.values
        if any(root(value) in made for group in between for op in group.ops for value in op.inputs):
            continue
        if any(isinstance(value.op, View) and root(value) in made for op in into.ops for value in op.inputs):
            continue
        into.ops[:0] = other.ops
        if other.kind == "reduction":
            into.kind, into.dims = "reduction", other.dims
        groups.remove(other)
        for op in other.ops:
            if owner.get(op.out) is other:
                owner[op.out] = into


def _compatible(into: Group, other: Group) -> bool:
    if other.kind == "elementwise":
        return into.kind in ("elementwise", "reduction", "split")
    if other.kind == "reduction":
        return into.kind == "elementwise" or (into.kind == "reduction" and into.dims == other.dims)
    return other.kind == "split" == into.kind and into.dims == other.dims


INLINE = 10
"""Largest expression, in nodes, that one assignment may hold."""


def inline(group: Group) -> None:
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
        if reads == 1 and size <= INLINE and op.origin.lineno == reader.origin.lineno:
            reader.expr = substitute(reader.expr, op.out, op.expr)
            group.ops.remove(op)


def _find_outputs(groups: list[Group], returned: list[Value]) -> None:
    leaving = {root(value) for value in returned}
    readers: dict[Value, set[Group]] = {}
    for group in groups:
        made = group.values
        for op in group.ops:
            for value in op.inputs:
                if value not in made:
                    readers.setdefault(root(value), set()).add(group)
    for group in groups:
        if group.kind != "extern":
            group.outputs = [op.out for op in group.ops if op.out in leaving or readers.get(op.out)]
            group.steps = [op.label for op in group.ops if not op.label.startswith("_")]
            group.steps = group.steps or [group.ops[-1].label.strip("_")]
            group.lines = list(dict.fromkeys(op.origin.line for op in group.ops if op.origin.line))
            inline(group)
