"""Reductions over any dimensions, and what is made of them: mean, variance, norms, any, all, argmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, Ref, as_expr, binary, call, cast, compute_dtype, is_nan, where
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.cast import convert
from backends.compiler.rules.operand import number, truth


def dims_of(x: Value, dim: Any) -> list[int]:
    """Normalise a dim argument: None and [] mean all."""
    rank = len(x.shape)
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(rank))
    return sorted({d % rank for d in ([dim] if isinstance(dim, int) else dim)}) if rank else []


def finish(builder: Builder, reduced: Value, dims: Sequence[int], keepdim: bool) -> Value:
    """Drop the reduced dimensions unless they are kept."""
    return reduced if keepdim or not dims else builder.squeeze(reduced, dims)


def total(builder: Builder, x: Value, dims: Sequence[int], dtype: torch.dtype, label: str = "sum") -> Value:
    """Sum in the result's dtype; integers and booleans are widened first."""
    if not x.dtype.is_floating_point and x.dtype != dtype:
        x = convert(builder, x, dtype)
    return builder.reduce("sum", x, dims, dtype, label=label)


def mean_of(builder: Builder, x: Value, dims: Sequence[int], label: str = "_mean", correction: float = 0.0) -> Value:
    """Average in float32 (float64 for doubles); a correction of 1 divides by n - 1."""
    return builder.reduce("mean", x, dims, compute_dtype(x.dtype), label=label, correction=correction)


def read(builder: Builder, x: Value) -> Expr:
    """Read a floating tensor in the dtype it is computed in."""
    return builder.element(x, x.dtype)


def moments(
    builder: Builder, x: Value, dims: Sequence[int], correction: float = 0.0, of: str = ""
) -> tuple[Value, Value, Value]:
    """Return mean, x - mean and variance by two passes: the one-pass formula cancels when the mean is large."""
    middle = mean_of(builder, x, dims, f"{of}_mean")
    dtype = compute_dtype(x.dtype)
    centered = builder.pointwise("_centered", read(builder, x) - read(builder, middle), dtype)
    square = builder.pointwise("_squared", read(builder, centered) * read(builder, centered), dtype)
    return middle, centered, mean_of(builder, square, dims, f"{of}_variance", correction)


def variance_of(builder: Builder, x: Value, dims: Sequence[int], correction: float = 0.0) -> tuple[Value, Value]:
    """Return x - mean and variance."""
    return moments(builder, x, dims, correction)[1:]


@rule("sum.default", "sum.dim_IntList")
def sum_(builder: Builder, self: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    dims = dims_of(self, dim)
    if dtype is not None and dtype.is_floating_point and self.dtype != dtype:
        self = convert(builder, self, dtype)
    return finish(builder, total(builder, self, dims, builder.dtype), dims, keepdim)


@rule("mean.default", "mean.dim")
def mean(builder: Builder, self: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    dims = dims_of(self, dim)
    if not self.dtype.is_floating_point:
        self = convert(builder, self, builder.dtype)
    return finish(builder, builder.reduce("mean", self, dims, builder.dtype), dims, keepdim)


@rule("amax.default", "max.default")
def amax(builder: Builder, self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _extreme(builder, "max", self, dim, keepdim)


@rule("amin.default", "min.default")
def amin(builder: Builder, self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _extreme(builder, "min", self, dim, keepdim)


def _needs_an_order(kind: str, x: Value) -> None:
    if x.dtype == torch.bool or any(size.hint == 0 for size in x.shape):
        raise Declined(f"{kind} of {'booleans' if x.dtype == torch.bool else 'an empty tensor'}")


def _extreme(builder: Builder, kind: str, x: Value, dim: Any, keepdim: bool) -> Value:
    _needs_an_order(kind, x)
    dims = dims_of(x, dim)
    return finish(builder, builder.reduce(kind, x, dims, x.dtype), dims, keepdim)


@rule("max.dim")
def max_dim(builder: Builder, self: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return _extreme(builder, "max", self, dim, keepdim), _position(builder, "argmax", self, dim, keepdim)


@rule("min.dim")
def min_dim(builder: Builder, self: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return _extreme(builder, "min", self, dim, keepdim), _position(builder, "argmin", self, dim, keepdim)


@rule("argmax.default")
def argmax(builder: Builder, self: Value, dim: Any, keepdim: bool) -> Value:
    return _position(builder, "argmax", self, dim, keepdim)


@rule("argmin.default")
def argmin(builder: Builder, self: Value, dim: Any, keepdim: bool) -> Value:
    return _position(builder, "argmin", self, dim, keepdim)


def _position(builder: Builder, kind: str, x: Value, dim: Any, keepdim: bool) -> Value:
    _needs_an_order(kind, x)
    if not x.shape:
        raise Declined(f"{kind} of a single number")
    dims = dims_of(x, dim)
    return finish(builder, builder.reduce(kind, x, dims, torch.int64), dims, keepdim)


@rule("aminmax.default")
def aminmax(builder: Builder, self: Value, dim: Any, keepdim: bool) -> tuple[Value, Value]:
    return _extreme(builder, "min", self, dim, keepdim), _extreme(builder, "max", self, dim, keepdim)


@rule("nansum.default")
def nansum(builder: Builder, self: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    if not self.dtype.is_floating_point or dtype not in (None, self.dtype):
        raise Declined("nansum of integers, or in another dtype")
    x = read(builder, self)
    present = builder.pointwise("_present", where(is_nan(x), 0.0, x), compute_dtype(self.dtype))
    dims = dims_of(self, dim)
    return finish(builder, builder.reduce("sum", present, dims, builder.dtype, label="nansum"), dims, keepdim)


@rule("nanmean.default")
def nanmean(builder: Builder, self: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    if not self.dtype.is_floating_point or dtype not in (None, self.dtype):
        raise Declined("nanmean of integers, or in another dtype")
    x, dims, computed = read(builder, self), dims_of(self, dim), compute_dtype(self.dtype)
    present = builder.pointwise("_present", where(is_nan(x), 0.0, x), computed)
    counted = builder.pointwise("_counted", where(is_nan(x), 0.0, as_expr(1.0, computed)), computed)
    summed = builder.reduce("sum", present, dims, computed, label="_sum")
    count = builder.reduce("sum", counted, dims, computed, label="_count")
    return finish(builder, builder.pointwise("nanmean", read(builder, summed) / read(builder, count)), dims, keepdim)


@rule("prod.default", "prod.dim_int")
def prod(builder: Builder, self: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    if builder.dtype == torch.bool:
        raise Declined("a product of booleans")
    dims = dims_of(self, dim)
    if self.dtype != builder.dtype:
        self = convert(builder, self, builder.dtype)
    return finish(builder, builder.reduce("prod", self, dims, builder.dtype), dims, keepdim)


@rule("count_nonzero.dim_IntList", "count_nonzero.default")
def count_nonzero(builder: Builder, self: Value, dim: Any = None) -> Value:
    dims = dims_of(self, dim)
    flag = builder.pointwise("_flag", cast(truth(builder, self), torch.int64), torch.int64)
    return finish(builder, builder.reduce("sum", flag, dims, torch.int64, label="count_nonzero"), dims, False)


@rule("any.default", "any.dim", "any.dims")
def any_(builder: Builder, self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _boolean(builder, "max", self, dim, keepdim, "any")


@rule("all.default", "all.dim", "all.dims")
def all_(builder: Builder, self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _boolean(builder, "min", self, dim, keepdim, "all")


def _boolean(builder: Builder, kind: str, x: Value, dim: Any, keepdim: bool, label: str) -> Value:
    if builder.dtype != torch.bool:
        raise Declined(f"{label} of {x.dtype}")
    dims = dims_of(x, dim)
    element = builder.element(x, x.dtype)
    truth = element if x.dtype == torch.bool else binary("!=", element, 0, torch.bool)
    flag = builder.pointwise("_flag", cast(truth, torch.int32), torch.int32)
    found = builder.reduce(kind, flag, dims, torch.int32, label="_found")
    answer = builder.pointwise(label, binary("!=", Ref(torch.int32, found), 0, torch.bool), torch.bool)
    return finish(builder, answer, dims, keepdim)


@rule("var.correction", "var.dim", "var.default")
def var(
    builder: Builder,
    self: Value,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    correction: Any = None,
) -> Value:
    return finish(builder, *_variance(builder, self, dim, unbiased, correction), keepdim)


@rule("std.correction", "std.dim", "std.default")
def std(
    builder: Builder,
    self: Value,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    correction: Any = None,
) -> Value:
    spread, dims = _variance(builder, self, dim, unbiased, correction)
    return finish(builder, builder.pointwise("std", call("sqrt", read(builder, spread))), dims, keepdim)


def _variance(builder: Builder, x: Value, dim: Any, unbiased: bool, correction: Any) -> tuple[Value, list[int]]:
    dims = dims_of(x, dim)
    less = number(builder, correction) if correction is not None else (1 if unbiased else 0)
    if less > 1 or any(x.shape[dim].hint == 0 for dim in dims):
        raise Declined("the variance of fewer elements than it takes away")
    _, spread = variance_of(builder, x, dims, float(less))
    return builder.pointwise("var", read(builder, spread), x.dtype), dims


def _mean_beside(name: str, spread_of: Callable[..., Value]) -> None:
    @rule(f"{name}_mean.correction", f"{name}_mean.dim", f"{name}_mean.default")
    def apply(
        builder: Builder,
        self: Value,
        dim: Any = None,
        unbiased: bool = True,
        keepdim: bool = False,
        correction: Any = None,
    ) -> tuple[Value, Value]:
        return spread_of(builder, self, dim, unbiased, keepdim, correction), mean(builder, self, dim, keepdim)


_mean_beside("var", var)
_mean_beside("std", std)
