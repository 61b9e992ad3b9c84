"""Resampling: each place of the result is one of the source, or weighs its neighbours (PyTorch's own formulas)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, Literal, binary, call, cast, compute_dtype, where
from backends.compiler.indexed import PLACE, Local, Measure, least, length, measure
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.operand import number
from backends.compiler.rules.pool import LETTERS

SINGLE = torch.float32


def _sides(builder: Builder, x: Value, size: Any, factors: Any, sides: int) -> list[tuple[Expr, Expr, float | None]]:
    """For each resampled dimension: its length, how far one step goes in the source, and the factor if one is given."""
    assert builder.result is not None
    if len(x.shape) != sides + 2 or 0 in (*x.hints, *builder.result.hints):
        raise Declined("resampling of this shape")
    found: list[tuple[Expr, Expr, float | None]] = []
    for side in range(sides):
        dim = 2 + side
        if factors is not None:
            factor = float(number(builder, factors[side]))
            out = measure(f"math.floor({{0}} * {factor})", builder.result.shape[dim].hint, "", (x, dim))
            found.append((out, _step_of_factor(x, dim, factor), factor))
            continue
        wanted = number(builder, size[side])
        if not isinstance(wanted, int):
            raise Declined("resampling to a size that only forward knows")
        step = measure(f"{{0}} / {wanted}", x.shape[dim].hint / wanted, "step", (x, dim), dtype=SINGLE)
        found.append((Literal(PLACE, wanted), step, None))
    return found


def _step_of_factor(x: Value, dim: int, factor: float) -> Expr:
    """PyTorch copies where the length stays, whatever the factor: it only can below 2."""
    if factor >= 2.0 or factor < 1.0:
        return Literal(SINGLE, 1.0 / factor)
    text = f"1.0 if math.floor({{0}} * {factor}) == {{0}} else {1.0 / factor!r}"
    return measure(text, 1.0 / factor, "step", (x, dim), dtype=SINGLE)


def _extents(x: Value, sides: Sequence[tuple[Expr, Expr, float | None]]) -> list[Expr]:
    return [length(x, 0), length(x, 1), *(size for size, _, _ in sides)]


def _coordinates(sides: int) -> list[str]:
    return [f"o{letter}" for letter in LETTERS[-sides:]]


# ---- the nearest --------------------------------------------------------------------------------


def _nearest(sides: int, exact: bool) -> None:
    name = f"{'_upsample_nearest_exact' if exact else 'upsample_nearest'}{sides}d"

    @rule(f"{name}.vec")
    def apply(builder: Builder, input: Value, output_size: Any, scale_factors: Any) -> Value:
        found = _sides(builder, input, output_size, scale_factors, sides)
        places: list[Expr] = [builder.place(0), builder.place(1)]
        for side, ((_, step, _), letter) in enumerate(zip(found, LETTERS[-sides:], strict=True)):
            out, size = cast(builder.place(2 + side), SINGLE), length(input, 2 + side, f"in_{letter}")
            at = cast((out + 0.5) * step if exact else out * step, PLACE)
            places.append(Local(PLACE, f"i{letter}", least(at, size - 1)))
        return builder.mapped(
            name.strip("_"), builder.read(input, places), _extents(input, found), coordinates=_coordinates(sides)
        )


for _count in (1, 2, 3):
    _nearest(_count, exact=False)
    _nearest(_count, exact=True)


# ---- linear -------------------------------------------------------------------------------------


def _linear(name: str, sides: int) -> None:
    @rule(f"{name}.vec")
    def apply(builder: Builder, input: Value, output_size: Any, align_corners: bool, scale_factors: Any) -> Value:
        if not input.dtype.is_floating_point or input.dtype == torch.float64:
            raise Declined(f"weighing neighbours of {input.dtype}")
        found = _sides(builder, input, output_size, scale_factors, sides)
        axes = [_between(builder, input, side, found[side], sides, align_corners) for side in range(sides)]
        lead = [builder.place(0), builder.place(1)]
        expr = _weighed(builder, input, lead, axes)
        return builder.mapped(name, expr, _extents(input, found), coordinates=_coordinates(sides))


def _between(
    builder: Builder, x: Value, side: int, found: tuple[Expr, Expr, float | None], sides: int, align_corners: bool
) -> tuple[Expr, Expr, Expr]:
    """The two places of the source around a place of the result, and the weight of the second."""
    size, step, _ = found
    letter, dim = LETTERS[-sides:][side], 2 + side
    out = cast(builder.place(dim), SINGLE)
    if align_corners:
        out_size = size.text if isinstance(size, Measure) else str(size.number) if isinstance(size, Literal) else ""
        text = f"({{0}} - 1) / max({out_size} - 1, 1)"
        assert builder.result is not None
        ratio = (x.shape[dim].hint - 1) / max(builder.result.shape[dim].hint - 1, 1)
        source: Expr = out * measure(text, ratio, "step", (x, dim), dtype=SINGLE)
    else:
        middle = (out + 0.5) * step - 0.5
        source = where(middle < 0.0, 0.0, middle)
    exact = Local(SINGLE, f"{letter}_exact", source)
    last = length(x, dim, f"in_{letter}") - 1
    first = Local(PLACE, f"{letter}0", least(cast(call("floor", exact), PLACE), last))
    second = Local(PLACE, f"{letter}1", least(binary("+", first, 1), last))
    weight = Local(SINGLE, f"{letter}_weight", exact - cast(first, SINGLE))
    return first, second, weight


def _weighed(builder: Builder, x: Value, lead: list[Expr], axes: list[tuple[Expr, Expr, Expr]]) -> Expr:
    """Blend along the first of the axes what is blended along the others."""
    if not axes:
        return builder.read(x, lead, wish="corner")
    (first, second, weight), *rest = axes
    near = _weighed(builder, x, [*lead, first], rest)
    far = _weighed(builder, x, [*lead, second], rest)
    share = cast(weight, compute_dtype(x.dtype))
    return (1.0 - share) * near + share * far


_linear("upsample_linear1d", 1)
_linear("upsample_bilinear2d", 2)
_linear("upsample_trilinear3d", 3)
