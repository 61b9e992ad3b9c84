"""How readings at computed places walk a group's domain: which of its dimensions they pass in order, as they lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from backends.compiler.expression import Expr, Index
from backends.compiler.group import Group
from backends.compiler.indexed import Read
from backends.compiler.ir import Pointwise, Shape


@dataclass(frozen=True)
class Walk:
    """Marks of the domain's dimensions, equal where neighbours may be walked as one; `joins` to the one before."""

    marks: tuple[object, ...]
    joins: frozenset[int]


def own(x: Expr) -> Iterator[Expr]:
    """Yield a tree's nodes without those inside of what is read: a number that was read is just a number."""
    if not isinstance(x, Read):
        for part in x.parts:
            yield from own(part)
    yield x


def places(read: Read) -> Iterator[Expr]:
    """Yield the nodes that decide where a reading takes place."""
    for part in read.parts:
        yield from own(part)


def indexed(group: Group) -> set[int]:
    """The dimensions whose coordinate is a number of the computation itself."""
    rank = len(group.domain)
    return {
        rank - node.from_end
        for op in group.ops
        if isinstance(op, Pointwise)
        for node in own(op.expr)
        if isinstance(node, Index)
    }


def walked(read: Read, domain: Shape) -> Walk:
    """Find where a reading's indices are plain coordinates, one after the other as the source's dimensions are."""
    rank, joins = len(domain), set()
    marks: list[object] = []
    used = [node.from_end for node in places(read) if isinstance(node, Index)]
    for dim in range(len(domain)):
        count = used.count(rank - dim)
        at = position(read, rank - dim)
        if count == 0:
            marks.append(None)
            joins.add(dim)
        elif count == 1 and at is not None:
            marks.append(at - dim)
            if read.value.shape[at] == domain[dim] and _follows(read, domain, at, dim):
                joins.add(dim)
        else:
            marks.append(("alone", dim))
    return Walk(tuple(marks), frozenset(joins))


def position(read: Read, from_end: int) -> int | None:
    """The source's dimension whose index is just this coordinate."""
    found = [at for at, x in enumerate(read.indices) if isinstance(x, Index) and x.from_end == from_end]
    return found[0] if len(found) == 1 else None


def _follows(read: Read, domain: Shape, at: int, dim: int) -> bool:
    """Tell whether nothing but single elements lies between a source's dimension and the one walked before it."""
    before = dim - 1
    while before >= 0 and domain[before].hint == 1:
        before -= 1
    return all(read.value.shape[place].hint == 1 for place in range(at - (dim - before) + 1, at) if place >= 0)
