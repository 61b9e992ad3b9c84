"""Adaptive pooling: as many windows as asked for, each from floor(o n / m) to ceil((o + 1) n / m)."""

from __future__ import annotations

from typing import Any

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, Literal, cast, compute_dtype
from backends.compiler.indexed import PLACE, Fold, Local, Tap, every, length, measure, over, plus, times
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.operand import number
from backends.compiler.rules.pool import LETTERS, smallest


def _wanted(builder: Builder, given: Any, sides: int) -> list[int]:
    sizes = [number(builder, size) for size in (given if isinstance(given, (list, tuple)) else [given])]
    return sizes * sides if len(sizes) == 1 else sizes


def _window(
    builder: Builder, x: Value, sizes: list[int], fill: float
) -> tuple[list[Tap], Expr, list[Expr], list[Expr]]:
    """Return the loops, the element at hand, how many elements the window has, and the places along each side."""
    lead = len(x.shape) - len(sizes)
    taps, counts, conditions = [], [], []
    places: list[Expr] = []
    for side, (size, letter) in enumerate(zip(sizes, LETTERS[-len(sizes) :], strict=True)):
        dim, out = lead + side, builder.place(lead + side)
        whole = length(x, dim, f"in_{letter}")
        text, now = f"-(-{{0}} // {size}) + ({{0}} % {size} > 0)", x.shape[dim].hint
        longest = measure(text, -(-now // size) + (now % size > 0), f"longest_{letter}", (x, dim))
        tap = Tap(PLACE, f"k{letter}", longest)
        start = Local(PLACE, f"{letter}_start", over(times(out, whole), size))
        end = Local(PLACE, f"{letter}_end", over(plus(times(plus(out, 1), whole), size - 1), size))
        at = Local(PLACE, f"i{letter}", plus(start, tap))
        taps.append(tap)
        places.append(at)
        counts.append(end - start)
        conditions.append(at < end)
    own = [*(builder.place(dim) for dim in range(lead)), *places]
    return taps, builder.read(x, own, every(conditions), fill), counts, places


def _extents(x: Value, sizes: list[int]) -> list[Expr]:
    lead = len(x.shape) - len(sizes)
    return [*(length(x, dim) for dim in range(lead)), *(Literal(PLACE, size) for size in sizes)]


def _check(builder: Builder, x: Value, sizes: list[Any]) -> None:
    assert builder.result is not None
    plain = all(isinstance(size, int) and size > 0 for size in sizes)
    if not plain or len(x.shape) not in (len(sizes) + 1, len(sizes) + 2) or 0 in (*x.hints, *builder.result.hints):
        raise Declined("adaptive pooling of this shape")


def _adaptive_average(sides: int) -> None:
    label = f"adaptive_avg_pool{sides}d"

    @rule(f"{label}.default")
    def apply(builder: Builder, self: Value, output_size: Any) -> Value:
        sizes = _wanted(builder, output_size, sides)
        _check(builder, self, sizes)
        if not self.dtype.is_floating_point:
            raise Declined("an average of integers")
        if all(size == 1 for size in sizes):
            dims = range(len(self.shape) - sides, len(self.shape))
            return builder.reduce("mean", self, list(dims), builder.dtype, label=label)
        taps, element, counts, _ = _window(builder, self, sizes, 0.0)
        total = Fold(element.dtype, "sum", tuple(taps), element, "total")
        count = counts[0]
        for other in counts[1:]:
            count = times(count, other)
        names = [f"o{letter}" for letter in LETTERS[-sides:]]
        count = Local(PLACE, "count", count)
        expr = total / cast(count, total.dtype)
        return builder.mapped(label, expr, _extents(self, sizes), coordinates=names)


def _adaptive_largest(sides: int) -> None:
    label = f"adaptive_max_pool{sides}d"

    @rule(f"{label}.default")
    def apply(builder: Builder, self: Value, output_size: Any) -> tuple[Value, Value]:
        sizes = _wanted(builder, output_size, sides)
        _check(builder, self, sizes)
        names, fill = [f"o{letter}" for letter in LETTERS[-sides:]], smallest(compute_dtype(self.dtype))
        taps, element, _, places = _window(builder, self, sizes, fill)
        largest = Fold(element.dtype, "max", tuple(taps), element, label)
        values = builder.mapped(label, largest, _extents(self, sizes), dtype=self.dtype, coordinates=names)
        taps, element, _, places = _window(builder, self, sizes, fill)
        at, first = places[0], _start(places[0])
        for side in range(1, sides):
            whole = length(self, len(self.shape) - sides + side)
            at, first = plus(times(at, whole), places[side]), plus(times(first, whole), _start(places[side]))
        place = Fold(PLACE, "argmax", tuple(taps), element, f"{label}_indices", (first, at))
        indices = builder.mapped(
            f"{label}_indices", place, _extents(self, sizes), dtype=builder.results[1].dtype, coordinates=names
        )
        return values, indices


def _start(place: Expr) -> Expr:
    """The first place of a window's side: `at` is start + tap."""
    assert isinstance(place, Local)
    return place.meaning.parts[0]


for _sides in (1, 2, 3):
    _adaptive_average(_sides)
    _adaptive_largest(_sides)
