"""Norms of vectors, and the distances and angles made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backends.compiler.build import Builder
from backends.compiler.expression import call, compute_dtype, where
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.operand import number
from backends.compiler.rules.power import power
from backends.compiler.rules.reduction import dims_of, finish, read, total


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


@rule("dist.default")
def dist(builder: Builder, self: Value, other: Value, p: Any) -> Value:
    if self.dtype != other.dtype or not self.dtype.is_floating_point:
        raise Declined("dist of different dtypes")
    gap = builder.pointwise("_gap", read(builder, self) - read(builder, other), compute_dtype(self.dtype))
    return norm_of(builder, gap, number(builder, p), dims_of(gap, None), False)


@rule("linalg_norm.default")
def linalg_norm(builder: Builder, self: Value, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Value:
    dims = dims_of(self, dim)
    if dtype not in (None, self.dtype) or (ord is not None and (len(dims) != 1)):
        raise Declined("a norm of matrices, or in another dtype")
    return norm_of(builder, self, 2 if ord is None else number(builder, ord), dims, keepdim)


@rule("linalg_matrix_norm.str_ord")
def matrix_norm(builder: Builder, self: Value, ord: str, dim: Any, keepdim: bool, dtype: Any) -> Value:
    if ord != "fro" or dtype not in (None, self.dtype):
        raise Declined(f"the matrix norm {ord}")
    return norm_of(builder, self, 2, dims_of(self, dim), keepdim)


@rule("linalg_vecdot.default")
def vecdot(builder: Builder, x: Value, y: Value, dim: int) -> Value:
    if x.dtype != y.dtype or not x.dtype.is_floating_point:
        raise Declined("vecdot of integers")
    terms = builder.pointwise("_product", read(builder, x) * read(builder, y), compute_dtype(x.dtype))
    dims = dims_of(terms, dim)
    return finish(builder, builder.reduce("sum", terms, dims, builder.dtype, label="vecdot"), dims, False)
