"""One fusion pass: operations in order join the kernel that made what they read, where that costs no extra pass.

Joining is allowed when the operation's shape is the group's own; a group never reads what a later group makes.
"""

from __future__ import annotations

import math

from backends.compiler.expression import Index, walk
from backends.compiler.group import Group
from backends.compiler.ir import (
    Attention,
    Convolution,
    Extern,
    MatMul,
    Op,
    Order,
    Pointwise,
    Reduce,
    Scan,
    Scatter,
    Shape,
    Value,
    View,
    live,
    root,
)
from backends.compiler.outputs import find_outputs
from backends.compiler.product import coordinates

SPLIT_ROWS, SPLIT_COLUMNS = 32, 16384
"""A reduction of fewer rows than this, each longer than that, would leave most of a GPU idle: two stages."""

POSITIONS = ("argmax", "argmin")

KINDS: dict[type[Op], str] = {
    Pointwise: "elementwise",
    Reduce: "reduction",
    Scan: "scan",
    Order: "order",
    Scatter: "scatter",
    MatMul: "matmul",
    Convolution: "convolution",
    Attention: "attention",
}
"""The kind of group that an operation starts."""

ALONE = ("attention", "scatter")
"""Kinds that are one operation."""

WITH_TAIL = ("matmul", "convolution")
"""Kinds that begin with one operation of their own, and compute what is elementwise behind it."""


def fuse(ops: list[Op], returned: list[Value]) -> list[Group]:
    """Group the operations that are needed for the values returned."""
    groups: list[Group] = []
    owner: dict[Value, Group] = {}
    epoch = 0
    for op in live(ops, returned):
        if isinstance(op, View):
            continue
        if isinstance(op, Extern):
            group = Group("extern", op.out.shape, epoch, [op])
            epoch += op.is_barrier
            groups.append(group)
        else:
            group = _place(op, groups, owner, epoch)
        for value in op.made:
            owner[value] = group
        for moved in group.ops:
            owner.setdefault(moved.out, group)
    find_outputs(groups, returned)
    return groups


def _place(op: Op, groups: list[Group], owner: dict[Value, Group], epoch: int) -> Group:
    producers = {owner[root(value)] for value in op.inputs if root(value) in owner}
    latest = max(producers, key=groups.index, default=None)
    if latest is None and isinstance(op, (Reduce, Order)):
        latest = next((g for g in reversed(groups) if op.source in g.leaves and _joins(op, g, epoch)), None)
    if isinstance(op, Order):
        latest = next((g for g in groups if any(op.goes_with(other) for other in g.orders)), latest)
    if latest is None and op.elsewhere:
        latest = next((g for g in reversed(groups) if g.elsewhere & set(op.elsewhere)), None)
    if latest is not None and _joins(op, latest, epoch):
        whole = {owner.get(value) for value in _needed_whole(op)}  # in memory before op reads them
        _absorb(latest, [g for g in producers if g is not latest and g not in whole], groups, owner)
        _grow(latest, op)
        return latest
    kind = KINDS[type(op)]
    group = Group(kind, op.source.shape if isinstance(op, (Reduce, Order)) else op.out.shape, epoch)
    if kind not in (*WITH_TAIL, *ALONE):
        for value in op.inputs:
            _recompute(value, group, owner)
    _grow(group, op)
    groups.append(group)
    # several producers of this one shape need no memory between them and here
    if isinstance(op, Pointwise):
        _absorb(group, list(producers), groups, owner)
    return group


def _needed_whole(op: Op) -> set[Value]:
    """What an operation reads at other places than its own."""
    return {root(value) for value in op.inputs if isinstance(value.op, View)} | {root(value) for value in op.elsewhere}


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
        places = any(other.kind in POSITIONS for other in group.reductions)
        is_plain = not places and not group.tail and not group.elsewhere
        if is_plain and _too_few_rows(group.domain, op.dims):
            group.kind = "split"
    if isinstance(op, Scan):
        group.kind, group.dims = "scan", (op.dim,)
    if isinstance(op, Order):
        group.kind, group.dims = "order", _last(group)


def _last(group: Group) -> tuple[int, ...]:
    return (len(group.domain) - 1,)


def _too_few_rows(domain: Shape, dims: tuple[int, ...]) -> bool:
    rows = math.prod(size.hint for index, size in enumerate(domain) if index not in dims)
    columns = math.prod(domain[index].hint for index in dims)
    trailing = dims == tuple(range(len(domain) - len(dims), len(domain)))
    return trailing and rows < SPLIT_ROWS and columns > SPLIT_COLUMNS


def _joins(op: Op, group: Group, epoch: int) -> bool:
    if group.epoch != epoch or group.kind in ("extern", *ALONE) or KINDS[type(op)] in (*WITH_TAIL, *ALONE):
        return False
    if op.has_effect and group.kind not in ("elementwise", "reduction"):
        return False
    made = group.values
    if any(isinstance(value.op, View) and root(value) in made for value in op.inputs):
        return False  # a view of something that is not in memory yet
    if any(root(value) in made for value in op.elsewhere):
        return False  # another place of what this program alone has made
    if op.elsewhere and group.kind in (*WITH_TAIL, "split"):
        return False  # their tails know the operands' own places only
    first = group.ops[0]
    if isinstance(first, MatMul) and not _coordinates(op) <= coordinates(first).keys():
        return False
    if isinstance(op, Reduce):
        return _reduce_joins(op, group)
    if isinstance(op, Scan):
        is_same = op.source.shape == group.domain and not op.exclusive
        return is_same and (group.kind == "elementwise" or _goes_along(op, group))
    if isinstance(op, Order):
        return op.source.shape == group.domain and _may_be_sorted(op, group)
    if group.kind == "scan":
        return op.out.shape == group.domain and not _is_exclusive(group)
    if group.kind in ("elementwise", *WITH_TAIL):
        return op.out.shape == group.domain
    after = any(value in group.reduced for value in op.inputs)
    if group.kind == "split":
        return op.out.shape == (group.row_shape if after else group.domain)
    return op.out.shape in (group.domain, group.row_shape)


def _coordinates(op: Op) -> set[int]:
    """The dimensions, counted from the last, whose coordinate an operation computes with."""
    expression = op.expr if isinstance(op, Pointwise) else None
    return {node.from_end for node in walk(expression) if isinstance(node, Index)} if expression else set()


def _reduce_joins(op: Reduce, group: Group) -> bool:
    if op.source.shape != group.domain:
        return False
    if group.kind == "elementwise":
        return True
    if group.kind == "split":
        return op.kind not in POSITIONS and op.dims == group.dims and op.source not in group.reduced
    return group.kind in ("reduction", "order") and op.dims == group.dims


def _may_be_sorted(op: Order, group: Group) -> bool:
    """Tell whether a group's programs hold the rows that a sort takes, and sort them in no other way."""
    if group.kind == "order":
        return all(op.goes_with(other) for other in group.orders)
    return group.kind == "elementwise" or (group.kind == "reduction" and group.dims == _last(group))


def _goes_along(op: Scan, group: Group) -> bool:
    """Tell whether a scan walks the way that the group's own do."""
    ways = {(other.dim, other.reverse, other.exclusive) for other in group.scans}
    return ways == {(op.dim, op.reverse, False)} and not op.exclusive


def _is_exclusive(group: Group) -> bool:
    """Tell whether a group is an exclusive scan: it reads at other places than it writes, so nothing joins it."""
    return any(scan.exclusive for scan in group.scans)


def _absorb(into: Group, others: list[Group], groups: list[Group], owner: dict[Value, Group]) -> None:
    """Compute in `into` what earlier groups of the same shape made, if nothing in between reads it."""
    for other in sorted(others, key=groups.index, reverse=True):
        if other.epoch != into.epoch or other.domain != into.domain or not _compatible(into, other):
            continue
        if other.kind == "split" and any(v in other.reduced for op in into.ops for v in op.inputs):
            continue  # stage one cannot wait for another's stage two
        between = groups[groups.index(other) + 1 : groups.index(into)]
        made = other.values
        if any(root(value) in made for group in between for op in group.ops for value in op.inputs):
            continue
        if any(isinstance(value.op, View) and root(value) in made for op in into.ops for value in op.inputs):
            continue
        if any(root(value) in made for value in into.elsewhere):
            continue
        into.ops[:0] = other.ops
        if other.kind in ("reduction", "scan", "order"):
            into.kind, into.dims = "order" if into.kind == "order" else other.kind, other.dims
        groups.remove(other)
        for op in other.ops:
            if owner.get(op.out) is other:
                owner[op.out] = into


def _compatible(into: Group, other: Group) -> bool:
    if _is_exclusive(into) or _is_exclusive(other):
        return False
    if other.kind == "elementwise":
        if into.kind == "split" and other.elsewhere:
            return False
        return into.kind in ("elementwise", "reduction", "split", "scan", "order")
    if other.kind == "scan":
        goes_along = into.kind == "scan" and all(_goes_along(op, other) for op in into.scans)
        return into.kind == "elementwise" or goes_along
    if other.kind in ("reduction", "order"):
        kinds = ("reduction", "order") if other.kind == "reduction" else ("reduction",)
        return into.kind == "elementwise" or (into.kind in kinds and into.dims == other.dims)
    return other.kind == "split" == into.kind and into.dims == other.dims
