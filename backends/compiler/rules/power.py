"""Powers and roots of elements."""

from __future__ import annotations

import math
from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, Literal, call, equal, where
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.operand import elements, needs_float32, number


@rule("square.default")
def square(builder: Builder, self: Value) -> Value:
    (x,) = elements(builder, self)
    return builder.pointwise("square", x * x)


@rule("reciprocal.default")
def reciprocal(builder: Builder, self: Value) -> Value:
    return builder.pointwise("reciprocal", 1.0 / elements(builder, self)[0])


LARGEST = 16
"""Largest whole exponent written as products."""


@rule("pow.Tensor_Scalar", "pow_.Scalar")
def power(builder: Builder, self: Value, exponent: Any) -> Value:
    exponent = number(builder, exponent)
    (x,) = elements(builder, self)
    if float(exponent).is_integer() and 0 <= exponent <= LARGEST:
        return builder.pointwise("pow" if exponent != 2 else "square", _product(x, int(exponent)))
    if not builder.dtype.is_floating_point or (builder.dtype == torch.float64 and abs(exponent) not in (0.5, 1)):
        raise Declined(f"power {exponent}")
    if float(exponent).is_integer() and -LARGEST <= exponent < 0:
        return builder.pointwise("pow", 1.0 / _product(x, -int(exponent)))
    if exponent == 0.5:
        return builder.pointwise("sqrt", call("sqrt", x))
    if exponent == -0.5:
        return builder.pointwise("rsqrt", 1.0 / call("sqrt", x))
    if float(exponent).is_integer() or not math.isfinite(exponent):
        raise Declined(f"power {exponent}")
    result = call("exp", call("log", x) * float(exponent))
    of_minus_infinity = float("inf") if exponent > 0 else 0.0  # other negative numbers have no such power
    return builder.pointwise("pow", where(equal(x, float("-inf")), of_minus_infinity, result))


@rule("pow.Scalar")
def power_of_number(builder: Builder, self: Any, exponent: Value) -> Value:
    base = number(builder, self)
    if not builder.dtype.is_floating_point or base <= 0 or base == 1 or not math.isfinite(base):
        raise Declined(f"powers of {base}")
    needs_float32(builder)
    (x,) = elements(builder, exponent)
    if base == 2:
        return builder.pointwise("pow", call("exp2", x))
    return builder.pointwise("pow", call("exp", x * math.log(base)))


def _product(x: Expr, times: int) -> Expr:
    if times == 0:
        return Literal(x.dtype, 1.0 if x.dtype.is_floating_point else 1)
    half = _product(x, times // 2) if times > 1 else None
    if half is None:
        return x
    return half * half if times % 2 == 0 else half * half * x
