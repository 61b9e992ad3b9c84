"""Matrix products, in every order of operands and with a bias."""

from __future__ import annotations

from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import compute_dtype
from backends.compiler.ir import Size, Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.operand import elements
from backends.compiler.rules.reduction import finish, read

PRODUCTS = (torch.float32, torch.float16, torch.bfloat16)


def product(builder: Builder, label: str, a: Value, b: Value, *, b_is_nk: bool = False) -> Value:
    """Multiply matrices on tensor cores, accumulating in float32."""
    if a.dtype not in PRODUCTS or a.dtype != b.dtype:
        raise Declined(f"a matrix product of {a.dtype}")
    return builder.matmul(label, a, b, b_is_nk=b_is_nk, dtype=a.dtype)


@rule("linear.default")
def linear(builder: Builder, input: Value, weight: Value, bias: Value | None) -> Value:
    if len(input.shape) < 2 or len(weight.shape) != 2:
        raise Declined("linear of a vector")
    y = product(builder, "linear", input, weight, b_is_nk=True)
    return y if bias is None else builder.pointwise("_biased", read(builder, y) + read(builder, bias))


@rule("matmul.default", "mm.default", "bmm.default", "mv.default", "dot.default", "vdot.default")
def matmul(
    builder: Builder,
    self: Value,
    other: Value | None = None,
    mat2: Value | None = None,
    vec: Value | None = None,
    tensor: Value | None = None,
) -> Value:
    right = next(operand for operand in (other, mat2, vec, tensor) if operand is not None)
    return multiply(builder, self, right)


def multiply(builder: Builder, a: Value, b: Value) -> Value:
    """`torch.matmul`: vectors are sums of products, matrices go to the tensor cores."""
    if len(a.shape) > 1 and len(b.shape) > 1:
        if len(b.shape) == 2 and b.shape[1].hint == 1 and a.dtype in PRODUCTS and a.dtype == b.dtype:
            return _matrix_vector(builder, a, b)
        if _is_deep(a, b):
            return _in_shares(builder, a, b)
        return product(builder, "matmul", a, b)
    if not a.dtype.is_floating_point or a.dtype != b.dtype:
        raise Declined(f"a product of {a.dtype}")
    dim = len(a.shape) - 1 if len(b.shape) == 1 else len(b.shape) - 2
    if len(b.shape) > 1:
        a = builder.unsqueeze(a, 1)  # [k] → [k, 1] against [..., k, n]
    terms = builder.pointwise("_terms", read(builder, a) * read(builder, b), compute_dtype(a.dtype))
    return finish(builder, builder.reduce("sum", terms, [dim], builder.dtype, label="matmul"), [dim], False)


def _matrix_vector(builder: Builder, a: Value, b: Value) -> Value:
    """[..., m, k] times one column: no tile of the tensor cores would be filled, so each row is a sum."""
    column = builder.squeeze(b, [1])
    terms = builder.pointwise("_terms", read(builder, a) * read(builder, column), compute_dtype(a.dtype))
    return builder.reduce("sum", terms, [len(a.shape) - 1], builder.dtype, label="matmul")


SHARES = 64


def _is_deep(a: Value, b: Value) -> bool:
    """True for a small result of very long sums: its few tiles would leave most of a GPU idle."""
    if len(a.shape) != 2 or len(b.shape) != 2 or a.dtype not in PRODUCTS or a.dtype != b.dtype:
        return False
    m, k, n = a.shape[0].hint, a.shape[1].hint, b.shape[1].hint
    return m * n <= 64 * 64 * 64 and k >= 16384 and k % SHARES == 0


def _in_shares(builder: Builder, a: Value, b: Value) -> Value:
    """Cut k into shares, multiply each, add up: the sum is only ordered in another way."""
    share = Size(a.shape[1].hint // SHARES)
    left = builder.view(
        a, (Size(SHARES), a.shape[0], share), f"{{0}}.unflatten(1, ({SHARES}, -1)).transpose(0, 1)", dense=False
    )
    right = builder.view(b, (Size(SHARES), share, b.shape[1]), f"{{0}}.unflatten(0, ({SHARES}, -1))", dense=False)
    parts = builder.matmul("_shares", left, right, b_is_nk=False, dtype=torch.float32)
    return builder.squeeze(builder.reduce("sum", parts, [0], builder.dtype, label="matmul"), [0])


@rule("outer.default", "ger.default")
def outer(builder: Builder, self: Value, vec2: Value) -> Value:
    x, y = elements(builder, builder.unsqueeze(self, 1), vec2)
    return builder.pointwise("outer", x * y)


@rule("inner.default")
def inner(builder: Builder, self: Value, other: Value) -> Value:
    if len(self.shape) == 1 == len(other.shape):
        return multiply(builder, self, other)
    if len(other.shape) != 2 or len(self.shape) < 2:
        raise Declined("inner of these ranks")
    return product(builder, "inner", self, other, b_is_nk=True)


@rule("addmm.default", "addmv.default")
def addmm(
    builder: Builder,
    self: Value,
    mat1: Value | None = None,
    mat2: Value | None = None,
    mat: Value | None = None,
    vec: Value | None = None,
    beta: Any = 1,
    alpha: Any = 1,
) -> Value:
    left, right = (mat1, mat2) if mat1 is not None else (mat, vec)
    assert left is not None and right is not None
    return _add_product(builder, self, left, right, beta, alpha, "addmm")


@rule("baddbmm.default")
def baddbmm(
    builder: Builder, self: Value, batch1: Value, batch2: Value, beta: Any, alpha: Any, out_dtype: Any = None
) -> Value:
    if out_dtype is not None:
        raise Declined("baddbmm in another dtype")
    return _add_product(builder, self, batch1, batch2, beta, alpha, "baddbmm")


def _add_product(builder: Builder, x: Value, a: Value, b: Value, beta: Any, alpha: Any, label: str) -> Value:
    """beta * x + alpha * (a @ b); beta = 0 ignores x, even its NaN."""
    y = read(builder, multiply(builder, a, b))
    scaled = y if alpha == 1 else y * elements(builder, alpha)[0]
    if beta == 0:
        return builder.pointwise(label, scaled)
    (addend,) = elements(builder, x)
    return builder.pointwise(label, scaled + (addend if beta == 1 else addend * elements(builder, beta)[0]))
