"""Views as maps: where in its source each element of a view lies, over the view's own coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from backends.compiler.expression import Expr, Index, Literal, Scalar
from backends.compiler.indexed import PLACE, Map, length, measure, modulo, over, plus, times
from backends.compiler.ir import Shape, Size, Value


def coordinate(shape: Shape, dim: int) -> Expr:
    """The coordinate along a dimension; 0 where there is a single place."""
    return Literal(PLACE, 0) if shape[dim].hint == 1 else Index(PLACE, len(shape) - dim)


def permuted(source: Value, dims: Sequence[int]) -> Map:
    """Dimension i of the view is dimension dims[i] of the source."""
    shape = tuple(source.shape[dim] for dim in dims)
    places: dict[int, Expr] = {dim: coordinate(shape, at) for at, dim in enumerate(dims)}
    several = [dim for dim in dims if source.shape[dim].hint != 1]
    return Map(
        tuple(places[dim] for dim in range(len(dims))),
        tuple(length(source, dim) for dim in dims),
        moves=several != sorted(several),
    )


def unsqueezed(source: Value, dim: int) -> Map:
    """A dimension of size 1 more."""
    shape = (*source.shape[:dim], Size(1), *source.shape[dim:])
    kept = [at for at in range(len(shape)) if at != dim]
    lengths = [length(source, at) for at in range(len(source.shape))]
    return Map(tuple(coordinate(shape, at) for at in kept), (*lengths[:dim], Literal(PLACE, 1), *lengths[dim:]))


def squeezed(source: Value, dim: int) -> Map:
    """A dimension of size 1 less."""
    return selected(source, dim, Literal(PLACE, 0), moves=False)


def selected(source: Value, dim: int, at: Expr, *, moves: bool = True) -> Map:
    """One place along a dimension, which goes."""
    shape = source.shape[:dim] + source.shape[dim + 1 :]
    indices = [coordinate(shape, place) for place in range(len(shape))]
    lengths = [length(source, place) for place in range(len(source.shape)) if place != dim]
    return Map((*indices[:dim], at, *indices[dim:]), tuple(lengths), moves)


def sliced(source: Value, shape: Shape, dim: int, start: Expr, step: int, extent: Expr) -> Map:
    """Every step-th place along a dimension from a first one on."""
    indices = [coordinate(shape, at) for at in range(len(shape))]
    lengths = [length(source, at) for at in range(len(shape))]
    indices[dim] = plus(times(indices[dim], step), start)
    lengths[dim] = extent
    return Map(tuple(indices), tuple(lengths), moves=True)


def expanded(source: Value, shape: Shape, extents: Sequence[Expr]) -> Map:
    """Dimensions of size 1 repeated, and leading ones added."""
    lead = len(shape) - len(source.shape)
    indices = tuple(
        Literal(PLACE, 0) if size.hint == 1 else coordinate(shape, lead + at) for at, size in enumerate(source.shape)
    )
    return Map(indices, tuple(extents), moves=True)


def flattened(source: Value, shape: Shape, start: int, end: int) -> Map:
    """Dimensions start..end as one."""
    indices = [coordinate(shape, at) for at in range(start)]
    rest, inner = coordinate(shape, start), list[Expr]()
    for dim in range(end, start, -1):
        inner.append(modulo(rest, length(source, dim)) if source.shape[dim].hint != 1 else Literal(PLACE, 0))
        rest = over(rest, length(source, dim)) if source.shape[dim].hint != 1 else rest
    indices += [rest, *reversed(inner), *(coordinate(shape, at) for at in range(start + 1, len(shape)))]
    lengths = [length(source, dim) for dim in range(len(source.shape))]
    merged = product([(source, dim) for dim in range(start, end + 1)])
    return Map(tuple(indices), (*lengths[:start], merged, *lengths[end + 1 :]))


def product(pairs: Sequence[tuple[Value, int]]) -> Expr:
    """The number of places that dimensions have together."""
    several = [(value, dim) for value, dim in pairs if value.shape[dim].hint != 1]
    number = math.prod(value.shape[dim].hint for value, dim in several)
    if not several:
        return Literal(PLACE, 1)
    return measure(" * ".join(f"{{{at}}}" for at in range(len(several))), number, "", *several)


def split(source: Value, shape: Shape, dim: int, count: int, extents: Sequence[Expr]) -> Map:
    """A dimension as `count` ones, whose lengths are the `extents`."""
    place: Expr = coordinate(shape, dim)
    for at in range(1, count):
        place = plus(times(place, extents[at]), coordinate(shape, dim + at))
    before = [coordinate(shape, at) for at in range(dim)]
    behind = [coordinate(shape, at) for at in range(dim + count, len(shape))]
    lengths = [length(source, at) for at in range(len(source.shape))]
    return Map((*before, place, *behind), (*lengths[:dim], *extents, *lengths[dim + 1 :]))


def split_extents(source: Value, dim: int, sizes: Sequence[Size], given: Sequence[Any]) -> list[Expr]:
    """The lengths that a dimension is split into: numbers of the user's, and at most one that is what is left."""
    known = [_known(size, number) for size, number in zip(sizes, given, strict=True)]
    if any(isinstance(extent, Scalar) for extent in known):
        return []
    numbers = [int(extent.number) if isinstance(extent, Literal) else 0 for extent in known]
    if 0 not in numbers:  # as the host writes it: the largest may be another in a module built with others
        numbers[numbers.index(max(numbers))] = 0
    if numbers.count(0) != 1:
        return []
    place, others = numbers.index(0), math.prod(number for number in numbers if number)
    left = measure(f"{{0}} // {others}" if others != 1 else "{0}", sizes[place].hint, "", (source, dim))
    return [left if at == place else Literal(PLACE, number) for at, number in enumerate(numbers)]


def _known(size: Size, given: Any) -> Expr | None:
    if isinstance(given, Scalar):
        return given
    if isinstance(given, int) and given >= 0 and size.symbol is None:
        return Literal(PLACE, given)
    return None
