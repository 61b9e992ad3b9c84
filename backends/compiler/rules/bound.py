"""Minima, maxima and clamping: NaN wins, as in PyTorch."""

from __future__ import annotations

from typing import Any

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, call, is_nan, where
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.operand import elements
from backends.compiler.rules.reduction import read


@rule("maximum.default", "max.other")
def maximum(builder: Builder, self: Value, other: Value) -> Value:
    return builder.pointwise("maximum", call("maximum", *elements(builder, self, other)))


@rule("minimum.default", "min.other")
def minimum(builder: Builder, self: Value, other: Value) -> Value:
    return builder.pointwise("minimum", call("minimum", *elements(builder, self, other)))


@rule("fmax.default")
def fmax(builder: Builder, self: Value, other: Value) -> Value:
    x, y = elements(builder, self, other)
    return builder.pointwise("fmax", where((x > y) | is_nan(y), x, y))


@rule("fmin.default")
def fmin(builder: Builder, self: Value, other: Value) -> Value:
    x, y = elements(builder, self, other)
    return builder.pointwise("fmin", where((x < y) | is_nan(y), x, y))


@rule("clamp.default", "clamp_.default", "clamp.Tensor", "clamp_.Tensor", "clip.default", "clip_.default")
def clamp(builder: Builder, self: Value, min: Any, max: Any) -> Value:
    if min is None and max is None:
        raise Declined("clamp without bounds")
    return builder.pointwise("clamp", clamped(builder, elements(builder, self)[0], min, max))


def clamped(builder: Builder, x: Expr, low: Any, high: Any) -> Expr:
    """Bound x; a NaN stays one because no comparison with it is true."""
    if low is not None:
        (bound,) = elements(builder, low)
        x = call("maximum", x, bound) if isinstance(low, Value) else where(x < bound, bound, x)
    if high is not None:
        if low is not None and not isinstance(high, Value):
            x = read(builder, builder.pointwise("_raised", x, x.dtype))  # named: it is written twice
        (bound,) = elements(builder, high)
        x = call("minimum", x, bound) if isinstance(high, Value) else where(x > bound, bound, x)
    return x


@rule("clamp_min.default", "clamp_min_.default", "clamp_min.Tensor")
def clamp_min(builder: Builder, self: Value, min: Any) -> Value:
    return clamp(builder, self, min, None)


@rule("clamp_max.default", "clamp_max_.default", "clamp_max.Tensor")
def clamp_max(builder: Builder, self: Value, max: Any) -> Value:
    return clamp(builder, self, None, max)
