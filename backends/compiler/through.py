"""Reading through views that move: a kernel computes where an element lies, and nothing is laid out anew."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from backends.compiler.expression import Expr, Index, Literal, Ref, Scalar, compute_dtype, transform, walk
from backends.compiler.indexed import PLACE, Measure, Read, length
from backends.compiler.ir import Extern, Order, Pointwise, Reduce, Scan, Scatter, Shape, Value, View
from backends.compiler.viewmaps import coordinate


class Unwritten(Exception):
    """A length that only forward can write."""


def moves(value: Value) -> bool:
    """Tell whether a tensor is a view whose elements lie in another order, or with gaps."""
    return _depth(value) > 0


def _depth(value: Value) -> int:
    """How many views down the last one lies that moves; 0 if none does, or one before it has no map."""
    depth, deepest, op = 0, 0, value.op
    while isinstance(op, View) and op.map is not None:
        depth += 1
        deepest = depth if op.map.moves else deepest
        op = op.source.op
    return deepest


def mapped(value: Value, places: Sequence[Expr]) -> tuple[Value, tuple[Expr, ...]]:
    """Return what a moving view looks at, and the places there of the element at these places of the view."""
    for _ in range(_depth(value)):
        op = value.op
        assert isinstance(op, View) and op.map is not None
        value, places = op.source, at(op.map.indices, places)
    return value, tuple(rooted(place, (value,)) for place in places)


def lies_in_order(value: Value, start: int, end: int) -> bool:
    """Tell whether neighbouring dimensions of a moving view lie in its source as they are, one in the other."""
    try:
        source, places = mapped(value, _places(value.shape, value.shape))
    except Unwritten:
        return False
    rank, found = len(value.shape), list[int]()
    for dim in range(start, end + 1):
        if value.shape[dim].hint != 1:
            place = next((at for at, x in enumerate(places) if isinstance(x, Index) and x.from_end == rank - dim), None)
            if place is None or (found and source.shape[place] != value.shape[dim]):
                return False
            found.append(place)
    between = range(found[0], found[-1]) if found else ()
    return found == sorted(found) and all(at in found or source.shape[at].hint == 1 for at in between)


def at(trees: Sequence[Expr], places: Sequence[Expr]) -> tuple[Expr, ...]:
    """Put places for the coordinates in trees."""
    rank = len(places)
    return tuple(
        transform(tree, lambda node: places[rank - node.from_end] if isinstance(node, Index) else None)
        for tree in trees
    )


def rooted(tree: Expr, roots: Collection[Value]) -> Expr:
    """Write lengths of views over those of the tensors they look at; raise Unwritten where only forward could."""
    return transform(tree, lambda node: _rooted(node, roots) if isinstance(node, Measure) else None)


def _rooted(number: Measure, roots: Collection[Value]) -> Expr:
    found: Expr = number
    while isinstance(found, Measure):
        place = next((i for i, (value, _) in enumerate(found.lengths) if value not in roots), None)
        extent = _extent(*found.lengths[place]) if place is not None else None
        if place is None or extent is None:
            return found
        found = inserted(found, place, extent)
    return found


def _extent(value: Value, dim: int) -> Expr | None:
    """Write a length of a view, or of what is computed, over the tensors that it is made of."""
    op = value.op
    if value.formula is not None:
        return value.formula.extents[dim]
    if isinstance(op, View):
        return op.map.extents[dim] if op.map else None
    if not isinstance(op, Pointwise):
        return None
    if op.extents is not None:
        return op.extents[dim]
    from_end = len(value.shape) - dim
    for operand in op.in_place:
        at = len(operand.shape) - from_end
        if at >= 0 and operand.shape[at].hint == value.shape[dim].hint:
            return length(operand, at)
    return None


def inserted(number: Measure, place: int, extent: Expr) -> Expr:
    """Write another expression for one of the lengths that a number is made of."""
    if number.text == "{0}" and not isinstance(extent, Measure):
        return extent
    if isinstance(extent, Scalar):
        raise Unwritten
    before, after = number.lengths[:place], number.lengths[place + 1 :]
    assert isinstance(extent, (Literal, Measure))
    more = extent.lengths if isinstance(extent, Measure) else ()
    inner = _shifted(extent.text, len(number.lengths)) if isinstance(extent, Measure) else str(extent.number)
    bracketed = f"({inner})" if " " in inner and number.text != "{0}" else inner
    text = number.text.replace(f"{{{place}}}", bracketed)
    lengths = [*before, number.lengths[place], *after, *more]
    used = [index for index in range(len(lengths)) if f"{{{index}}}" in text]
    renumbered = re.sub(r"\{(\d+)\}", lambda found: f"{{{used.index(int(found[1]))}}}", text)
    return Measure(number.dtype, renumbered, tuple(lengths[index] for index in used), number.number, number.wish)


def _shifted(text: str, by: int) -> str:
    return re.sub(r"\{(\d+)\}", lambda found: f"{{{int(found[1]) + by}}}", text)


def read_through(tree: Expr, shape: Shape) -> Expr:
    """Read behind the moving views among a tree's operands, whose shapes broadcast to `shape`."""
    operands = list(dict.fromkeys(node.value for node in walk(tree) if isinstance(node, Ref)))
    if any(is_product(operand) for operand in operands):
        return tree  # the tail of a product knows its own place only: there a view is laid out
    known: dict[Value, Expr] = {}
    for operand in operands:
        if not moves(operand):
            continue
        try:
            source, indices = mapped(operand, _places(operand.shape, shape))
        except Unwritten:
            continue
        known[operand] = Read(compute_dtype(operand.dtype), source, indices)
    return transform(tree, lambda node: known.get(node.value) if isinstance(node, Ref) else None)


def claims(operands: Sequence[Value], shape: Shape) -> list[tuple[int, Expr]]:
    """Pair dimensions of a shape with the lengths of moving views there that only the operands' own give."""
    found: list[tuple[int, Expr]] = []
    for operand in operands:
        lead = len(shape) - len(operand.shape)
        for dim, size in enumerate(operand.shape if moves(operand) else ()):
            if size.hint == 1:
                continue
            try:
                source, places = mapped(operand, _places(operand.shape, operand.shape))
                extent = rooted(length(operand, dim), (source,))
            except Unwritten:
                continue
            is_used = any(
                isinstance(node, Index) and node.from_end == len(operand.shape) - dim
                for place in places
                for node in walk(place)
            )
            if is_used and not isinstance(extent, Scalar):
                found.append((lead + dim, extent))
    return found


def _places(own: Shape, shape: Shape) -> list[Expr]:
    lead = len(shape) - len(own)
    return [Literal(PLACE, 0) if size.hint == 1 else coordinate(shape, lead + dim) for dim, size in enumerate(own)]


def is_product(value: Value) -> bool:
    """Tell whether a tensor is made by a product, or by the tail of one."""
    op = value.op
    if isinstance(op, Pointwise):
        return any(is_product(source) for source in op.in_place if source.shape == value.shape)
    return op is not None and not isinstance(op, (Reduce, Scan, Order, Scatter, View, Extern))


def extents(operands: Sequence[Value], shape: Shape) -> list[Expr | None]:
    """Write each length of a shape that operands broadcast to over what they look at; None where none can."""
    found: list[Expr | None] = [Literal(PLACE, 1) if size.hint == 1 else None for size in shape]
    for operand in sorted(operands, key=moves):
        lead = len(shape) - len(operand.shape)
        for dim, size in enumerate(operand.shape):
            if size.hint == 1 or found[lead + dim] is not None:
                continue
            try:
                source = mapped(operand, _places(operand.shape, operand.shape))[0] if moves(operand) else operand
                found[lead + dim] = rooted(length(operand, dim), (source,))
            except Unwritten:
                continue
    return found
