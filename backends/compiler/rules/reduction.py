"""Reductions over any dimensions, and what is made of them: mean, variance, norms, any, all, argmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, Ref, binary, call, cast, compute_dtype, equal, where
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.cast import convert
from backends.compiler.rules.operand import needs_float32, number
from backends.compiler.rules.power import power


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


def variance_of(builder: Builder, x: Value, dims: Sequence[int], correction: float = 0.0) -> tuple[Value, Value]:
    """Return (x - mean, variance) by two passes: the one-pass formula cancels when the mean is large."""
    middle = mean_of(builder, x, dims)
    dtype = compute_dtype(x.dtype)
    centered = builder.pointwise("_centered", read(builder, x) - read(builder, middle), dtype)
    square = builder.pointwise("_squared", read(builder, centered) * read(builder, centered), dtype)
    return centered, mean_of(builder, square, dims, "_variance", correction)


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


def _extreme(builder: Builder, kind: str, x: Value, dim: Any, keepdim: bool) -> Value:
    if x.dtype == torch.bool or any(size.hint == 0 for size in x.shape):
        raise Declined(f"{kind} of {'booleans' if x.dtype == torch.bool else 'an empty tensor'}")
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
    if x.dtype == torch.bool or any(size.hint == 0 for size in x.shape):
        raise Declined(f"{kind} of {'booleans' if x.dtype == torch.bool else 'an empty tensor'}")
    if dim is None and len(x.shape) != 1:
        raise Declined(f"{kind} over all dimensions at once")
    dims = dims_of(x, dim)
    return finish(builder, builder.reduce(kind, x, dims, torch.int64), dims, keepdim)


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
    builder: Builder, self: Value, dim: Any = None, unbiased: bool = True, keepdim: bool = False,
    correction: Any = None,
) -> Value:
    return finish(builder, *_variance(builder, self, dim, unbiased, correction), keepdim)


@rule("std.correction", "std.dim", "std.default")
def std(
    builder: Builder, self: Value, dim: Any = None, unbiased: bool = True, keepdim: bool = False,
    correction: Any = None,
) -> Value:
    spread, dims = _variance(builder, self, dim, unbiased, correction)
    return finish(builder, builder.pointwise("std", call("sqrt", read(builder, spread))), dims, keepdim)


def _variance(
    builder: Builder, x: Value, dim: Any, unbiased: bool, correction: Any
) -> tuple[Value, list[int]]:
    dims = dims_of(x, dim)
    less = correction if correction is not None else (1 if unbiased else 0)
    centered, spread = variance_of(builder, x, dims, float(less))
    named = builder.pointwise("var", read(builder, spread), x.dtype)
    return named, dims


@rule("logsumexp.default")
def logsumexp(builder: Builder, self: Value, dim: Any, keepdim: bool) -> Value:
    needs_float32(builder, self.dtype)
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


@rule("linalg_vector_norm.default")
def vector_norm(builder: Builder, self: Value, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Value:
    if dtype is not None and dtype != self.dtype:
        raise Declined("vector_norm in another dtype")
    return norm_of(builder, self, number(builder, ord), dims_of(self, dim), keepdim)


@rule("norm.ScalarOpt_dim", "norm.Scalar")
def norm(builder: Builder, self: Value, p: Any, dim: Any = None, keepdim: bool = False) -> Value:
    return norm_of(builder, self, 2 if p is None else number(builder, p), dims_of(self, dim), keepdim)


def norm_of(builder: Builder, x: Value, order: float, dims: Sequence[int], keepdim: bool) -> Value:
    """The p-norm of a vector: (sum |x|^p)^(1/p), the maximum for p = inf."""
    if not x.dtype.is_floating_point or (order in (float("inf"), float("-inf")) and 0 in [s.hint for s in x.shape]):
        raise Declined("norm of integers or of nothing")
    dtype = compute_dtype(x.dtype)
    size = call("abs", read(builder, x))
    if order in (float("inf"), float("-inf")):
        high = builder.pointwise("_abs", size, dtype)
        return finish(
            builder, builder.reduce("max" if order > 0 else "min", high, dims, x.dtype, label="norm"), dims, keepdim
        )
    if order == 0:
        raise Declined("the 0-norm")
    if order == 2:
        term = builder.pointwise("_squared", read(builder, x) * read(builder, x), dtype)
    elif order == 1:
        term = builder.pointwise("_abs", size, dtype)
    else:
        needs_float32(builder, x.dtype)
        absolute = builder.pointwise("_abs", size, dtype)
        term = power(builder, absolute, order)
    summed = builder.reduce("sum", term, dims, dtype, label="_sum")
    element = read(builder, summed)
    if order == 2:
        element = call("sqrt", element)
    elif order != 1:
        element = call("exp", call("log", element) * (1.0 / order))
    return finish(builder, builder.pointwise("norm", element, x.dtype), dims, keepdim)


@rule("cosine_similarity.default")
def cosine_similarity(builder: Builder, x1: Value, x2: Value, dim: int, eps: float) -> Value:
    if x1.dtype != x2.dtype or len(x1.shape) != len(x2.shape) or x1.hints != x2.hints:
        raise Declined("cosine_similarity of tensors of different shapes or dtypes")
    dims, dtype = dims_of(x1, dim), compute_dtype(x1.dtype)
    a, b = read(builder, x1), read(builder, x2)
    dot = total(builder, builder.pointwise("_product", a * b, dtype), dims, dtype, "_dot")
    lengths = []
    for element, name in ((a, "_length1"), (b, "_length2")):
        squares = total(builder, builder.pointwise("_squared", element * element, dtype), dims, dtype, "_sum")
        root = call("sqrt", read(builder, squares))
        lengths.append(builder.pointwise(name, where(root < eps, eps, root), dtype))
    product = read(builder, lengths[0]) * read(builder, lengths[1])
    return finish(builder, builder.pointwise("cosine_similarity", read(builder, dot) / product), dims, False)
