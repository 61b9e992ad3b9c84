"""The softmax family: the row's maximum is taken out first, so that exp never overflows."""

from __future__ import annotations

from typing import Any

from backends.compiler.build import Builder
from backends.compiler.expression import call, compute_dtype, equal, where
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.cast import convert
from backends.compiler.rules.reduction import dims_of, finish, read


def shifted_exp_sum(builder: Builder, x: Value, dim: int) -> tuple[Value, Value, Value]:
    """Return x - max, exp of it, and the sum of that over `dim`."""
    if not x.dtype.is_floating_point or not x.shape:
        raise Declined("softmax of integers or of a single number")
    dtype = compute_dtype(x.dtype)
    # a NaN needs no care here: it reaches the sum, and from there the whole row, as in PyTorch
    highest = builder.reduce("max_skipping_nan", x, [dim], dtype, label="_row_max")
    shifted = builder.pointwise("_shifted", read(builder, x) - read(builder, highest), dtype)
    numerator = builder.pointwise("_numerator", call("exp", read(builder, shifted)), dtype)
    return shifted, numerator, builder.reduce("sum", numerator, [dim], dtype, label="_exp_sum")


@rule("softmax.int", "special_softmax.default")
def softmax(builder: Builder, self: Value, dim: int, dtype: Any = None) -> Value:
    x = self if dtype is None else convert(builder, self, dtype)
    _, numerator, summed = shifted_exp_sum(builder, x, dim)
    return builder.pointwise("softmax", read(builder, numerator) / read(builder, summed))


@rule("log_softmax.int", "special_log_softmax.default")
def log_softmax(builder: Builder, self: Value, dim: int, dtype: Any = None) -> Value:
    x = self if dtype is None else convert(builder, self, dtype)
    shifted, _, summed = shifted_exp_sum(builder, x, dim)
    return builder.pointwise("log_softmax", read(builder, shifted) - call("log", read(builder, summed)))


@rule("logsumexp.default")
def logsumexp(builder: Builder, self: Value, dim: Any, keepdim: bool) -> Value:
    if not self.dtype.is_floating_point:
        raise Declined("logsumexp of integers")
    dims = dims_of(self, dim)
    dtype = compute_dtype(self.dtype)
    highest = builder.reduce("max_skipping_nan", self, dims, dtype, label="_row_max")
    top = read(builder, highest)
    # an infinite maximum would make inf - inf = NaN out of what is simply ±inf
    shift = builder.pointwise("_shift", where(equal(call("abs", top), float("inf")), 0.0, top), dtype)
    power_ = builder.pointwise("_exp", call("exp", read(builder, self) - read(builder, shift)), dtype)
    summed = builder.reduce("sum", power_, dims, dtype, label="_exp_sum")
    result = call("log", read(builder, summed)) + read(builder, shift)
    return finish(builder, builder.pointwise("logsumexp", result), dims, keepdim)
