"""Pooling: a window of the input folded to one element, the window's places read with what lies outside neutral."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, Literal, Number, cast, compute_dtype
from backends.compiler.indexed import (
    PLACE,
    Fold,
    Local,
    Measure,
    Tap,
    every,
    largest,
    least,
    length,
    measure,
    plus,
    times,
)
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.operand import number
from backends.compiler.rules.pinned import layer_numbers

LETTERS = ("d", "h", "w")


@dataclass(frozen=True)
class Window:
    """A pooling window along its one to three dimensions."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool = False

    def start(self, out: Expr, side: int) -> Expr:
        """Where the window begins, in the input's coordinates: before 0 where it hangs over the edge."""
        return plus(times(out, self.stride[side]), -self.padding[side])

    def extent(self, x: Value, side: int) -> Measure:
        """How many windows fit."""
        dim = len(x.shape) - len(self.kernel) + side
        reach = self.dilation[side] * (self.kernel[side] - 1) + 1
        spare = 2 * self.padding[side] - reach
        step, size, before = self.stride[side], x.shape[dim].hint, self.padding[side]
        inner = f"{{0}} {'+' if spare >= 0 else '-'} {abs(spare)}" if spare else "{0}"
        if not self.ceil_mode or step == 1:
            text = f"({inner}) // {step} + 1" if step != 1 else f"{inner} + 1"
            text = f"{{0}} {'+' if spare >= -1 else '-'} {abs(spare + 1)}" if step == 1 and spare != -1 else text
            text = "{0}" if step == 1 and spare == -1 else text
            return measure(text, (size + spare) // step + 1, "", (x, dim))
        # rounded up, but the last window must begin inside of the input or its left padding
        rounded = f"({inner} + {step - 1}) // {step}"
        inside = f"{{0}} + {before - 1}" if before else "{0} - 1"
        text = f"min({rounded}, ({inside}) // {step}) + 1"
        count = min((size + spare + step - 1) // step, (size + before - 1) // step) + 1
        return measure(text, count, "", (x, dim))


@dataclass(frozen=True)
class Reach:
    """A window over a tensor, in the kernel's coordinates."""

    taps: tuple[Tap, ...]
    places: tuple[Expr, ...]  # the input's coordinates, along the pooled dimensions
    starts: tuple[Expr, ...]
    sizes: tuple[Expr, ...]
    conditions: tuple[Expr, ...]

    def read(self, builder: Builder, x: Value, fill: Number) -> Expr:
        """Read the element at hand."""
        lead = len(x.shape) - len(self.places)
        indices = (*(builder.place(dim) for dim in range(lead)), *self.places)
        return builder.read(x, indices, every(list(self.conditions)), fill)


def _reach(builder: Builder, x: Value, window: Window) -> Reach:
    sides = len(window.kernel)
    letters, lead = LETTERS[-sides:], len(x.shape) - sides
    taps, places, starts, sizes, conditions = [], [], [], [], []
    for side, letter in enumerate(letters):
        count = window.kernel[side]
        tap = Tap(PLACE, f"k{letter}", Literal(PLACE, count))
        start = window.start(builder.place(lead + side), side)
        at = Local(PLACE, f"i{letter}", plus(start, times(tap, window.dilation[side])) if count > 1 else start)
        size = length(x, lead + side, f"in_{letter}")
        if window.padding[side]:
            conditions.append(at >= 0)
        if window.padding[side] or window.ceil_mode:
            conditions.append(at < size)
        taps += [tap] if count > 1 else []
        places.append(at)
        starts.append(start)
        sizes.append(size)
    return Reach(tuple(taps), tuple(places), tuple(starts), tuple(sizes), tuple(conditions))


def _names(sides: int) -> tuple[str, ...]:
    return tuple(f"o{letter}" for letter in LETTERS[-sides:])


def _extents(x: Value, window: Window) -> list[Expr]:
    sides = len(window.kernel)
    return [
        *(length(x, dim) for dim in range(len(x.shape) - sides)),
        *(window.extent(x, side) for side in range(sides)),
    ]


def _window(
    builder: Builder, sides: int, kernel: Any, stride: Any, padding: Any, dilation: Any = 1, ceil_mode: bool = False
) -> Window:
    layer_numbers(builder, ("kernel_size", "stride", "padding", "dilation"))
    size = _sides(builder, kernel, sides)
    step = _sides(builder, stride, sides) if stride not in (None, [], ()) else size
    return Window(size, step, _sides(builder, padding, sides), _sides(builder, dilation, sides), bool(ceil_mode))


def _sides(builder: Builder, given: Any, sides: int) -> tuple[int, ...]:
    found = [number(builder, part) for part in (given if isinstance(given, (list, tuple)) else [given])]
    return tuple(found * sides if len(found) == 1 else found)


def _check(builder: Builder, x: Value, window: Window) -> None:
    sides = len(window.kernel)
    assert builder.result is not None
    if len(x.shape) not in (sides + 1, sides + 2) or 0 in x.hints or 0 in builder.result.hints:
        raise Declined("pooling of this shape")
    if x.dtype == torch.bool:
        raise Declined("pooling of booleans")


# ---- the largest --------------------------------------------------------------------------------


def smallest(dtype: torch.dtype) -> Number:
    """The number that no element is below."""
    return float("-inf") if dtype.is_floating_point else torch.iinfo(dtype).min


def _largest_of(builder: Builder, label: str, x: Value, window: Window) -> Value:
    _check(builder, x, window)
    reach = _reach(builder, x, window)
    element: Expr = reach.read(builder, x, smallest(compute_dtype(x.dtype)))
    fold = Fold(element.dtype, "max", reach.taps, element, label) if reach.taps else element
    sides = len(window.kernel)
    return builder.mapped(label, fold, _extents(x, window), dtype=x.dtype, coordinates=_names(sides))


def _place_of_largest(builder: Builder, label: str, x: Value, window: Window) -> Value:
    reach = _reach(builder, x, window)
    element = reach.read(builder, x, smallest(compute_dtype(x.dtype)))
    at, first = reach.places[0], _first(window, reach, 0)
    for side in range(1, len(window.kernel)):
        at = plus(times(at, reach.sizes[side]), reach.places[side])
        first = plus(times(first, reach.sizes[side]), _first(window, reach, side))
    fold = Fold(PLACE, "argmax", reach.taps, element, f"{label}_indices", (first, at))
    return builder.mapped(
        f"{label}_indices",
        fold if reach.taps else at,
        _extents(x, window),
        dtype=torch.int64,
        coordinates=_names(len(window.kernel)),
    )


def _first(window: Window, reach: Reach, side: int) -> Expr:
    """The first place of the window that lies inside."""
    start, step = reach.starts[side], window.dilation[side]
    if not window.padding[side]:
        return start
    if step == 1:
        return largest(start, 0)
    raise Declined("places in a dilated window that hangs over the edge")


def _max_pool(sides: int) -> None:
    label = f"max_pool{sides}d"

    @rule(f"{label}.default")
    def plain(
        builder: Builder, self: Value, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> Value:
        window = _window(builder, sides, kernel_size, stride, padding, dilation, ceil_mode)
        return _largest_of(builder, label, self, window)

    @rule(f"{label}_with_indices.default")
    def with_indices(
        builder: Builder, self: Value, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> tuple[Value, Value]:
        window = _window(builder, sides, kernel_size, stride, padding, dilation, ceil_mode)
        return _largest_of(builder, label, self, window), _place_of_largest(builder, label, self, window)


for _sides_of in (1, 2, 3):
    _max_pool(_sides_of)


# ---- the average --------------------------------------------------------------------------------


def _average(
    builder: Builder, label: str, x: Value, window: Window, counts_padding: bool, divisor: int | None
) -> Value:
    _check(builder, x, window)
    if not x.dtype.is_floating_point:
        raise Declined("an average of integers")
    reach = _reach(builder, x, window)
    element: Expr = reach.read(builder, x, 0.0)
    total = Fold(element.dtype, "sum", reach.taps, element, "total") if reach.taps else element
    count = _count(window, reach, counts_padding) if divisor is None else Literal(PLACE, divisor)
    one = isinstance(count, Literal) and count.number == 1
    expr = total if one else total / cast(count, total.dtype)
    return builder.mapped(label, expr, _extents(x, window), coordinates=_names(len(window.kernel)))


def _count(window: Window, reach: Reach, counts_padding: bool) -> Expr:
    """How many places a window has, the padding counted or not; what lies beyond the padding never is."""
    count: Expr = Literal(PLACE, 1)
    for side, letter in enumerate(LETTERS[-len(window.kernel) :]):
        size, padding = window.kernel[side], window.padding[side]
        cut_off = window.ceil_mode if counts_padding else window.ceil_mode or padding > 0
        if not cut_off:
            count = times(count, size)
            continue
        start, end = reach.starts[side], plus(reach.sizes[side], padding if counts_padding else 0)
        last = least(plus(start, size), end)
        first = start if counts_padding or not padding else largest(start, 0)
        count = times(count, Local(PLACE, f"n_{letter}", last - first))
    return count


def _avg_pool(sides: int) -> None:
    label = f"avg_pool{sides}d"

    @rule(f"{label}.default")
    def plain(
        builder: Builder,
        self: Value,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: Any = None,
    ) -> Value:
        window = _window(builder, sides, kernel_size, stride, padding, 1, ceil_mode)
        override = None if divisor_override is None else number(builder, divisor_override)
        return _average(builder, label, self, window, bool(count_include_pad), override)


for _sides_of in (1, 2, 3):
    _avg_pool(_sides_of)
