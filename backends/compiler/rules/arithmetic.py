"""Sums, products and quotients of elements."""

from __future__ import annotations

from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, as_expr, binary, call, equal, where
from backends.compiler.indexed import Local
from backends.compiler.ir import Value
from backends.compiler.rules import rule
from backends.compiler.rules.function import toward_zero
from backends.compiler.rules.operand import elements


@rule("add.Tensor", "add_.Tensor", "add.Scalar", "add_.Scalar")
def add(builder: Builder, self: Value, other: Any, alpha: Any) -> Value:
    x, y = elements(builder, self, other)
    if builder.dtype == torch.bool:
        return builder.pointwise("add", x | y)
    return builder.pointwise("add", x + (y if alpha == 1 else y * elements(builder, alpha)[0]))


@rule("sub.Tensor", "sub_.Tensor", "sub.Scalar", "sub_.Scalar")
def sub(builder: Builder, self: Value, other: Any, alpha: Any) -> Value:
    x, y = elements(builder, self, other)
    return builder.pointwise("sub", x - (y if alpha == 1 else y * elements(builder, alpha)[0]))


@rule("rsub.Scalar", "rsub.Tensor")
def rsub(builder: Builder, self: Value, other: Any, alpha: Any) -> Value:
    x, y = elements(builder, self, other)
    return builder.pointwise("rsub", y - (x if alpha == 1 else x * elements(builder, alpha)[0]))


@rule("mul.Tensor", "mul_.Tensor", "mul.Scalar", "mul_.Scalar", "multiply.Tensor")
def mul(builder: Builder, self: Value, other: Any) -> Value:
    x, y = elements(builder, self, other)
    return builder.pointwise("mul", x & y if builder.dtype == torch.bool else x * y)


@rule("div.Tensor", "div_.Tensor", "div.Scalar", "true_divide.Tensor")
def div(builder: Builder, self: Value, other: Any) -> Value:
    x, y = elements(builder, self, other)
    return builder.pointwise("div", x / y)


@rule("div.Tensor_mode", "div_.Tensor_mode", "div.Scalar_mode")
def div_mode(builder: Builder, self: Value, other: Any, rounding_mode: str | None) -> Value:
    x, y = elements(builder, self, other)
    if rounding_mode is None:
        return builder.pointwise("div", x / y)
    if builder.dtype.is_floating_point:
        return builder.pointwise("div", toward_zero(x / y) if rounding_mode == "trunc" else _floored(x, y))
    quotient = call("int_div", x, y)
    return builder.pointwise("div", quotient if rounding_mode == "trunc" else _floor_quotient(x, y))


@rule("floor_divide.default", "floor_divide.Scalar", "floor_divide_.Tensor")
def floor_divide(builder: Builder, self: Value, other: Any) -> Value:
    return div_mode(builder, self, other, "floor")


@rule("remainder.Tensor", "remainder.Scalar", "remainder_.Tensor", "remainder_.Scalar")
def remainder(builder: Builder, self: Value, other: Any) -> Value:
    x, y = elements(builder, self, other)
    if builder.dtype.is_floating_point:
        rest = Local(x.dtype, "rest", call("fmod", x, y))
        return builder.pointwise("remainder", where(_is_against(rest, y), rest + y, rest))
    return builder.pointwise("remainder", x - _floor_quotient(x, y) * y)


@rule("fmod.Tensor", "fmod.Scalar", "fmod_.Tensor", "fmod_.Scalar")
def fmod(builder: Builder, self: Value, other: Any) -> Value:
    x, y = elements(builder, self, other)
    return builder.pointwise("fmod", call("fmod" if builder.dtype.is_floating_point else "int_mod", x, y))


def _is_against(rest: Expr, y: Expr) -> Expr:
    """True where what is left of a division towards zero has not the divisor's sign."""
    return binary("!=", rest, 0, torch.bool) & binary("!=", rest < 0, y < 0, torch.bool)


def _floored(x: Expr, y: Expr) -> Expr:
    """The quotient rounded down, from the rest as PyTorch does: that of 1 / 0.1 is 9."""
    rest = Local(x.dtype, "rest", call("fmod", x, y))
    whole = (x - rest) / y
    below = Local(x.dtype, "below", where(_is_against(rest, y), whole - 1.0, whole))
    floor = Local(x.dtype, "floor", call("floor", below))
    quotient = where(below - floor > 0.5, floor + 1.0, floor)
    zero = call("copysign", as_expr(0.0, x.dtype), x / y)
    return where(equal(y, 0.0), x / y, where(equal(below, 0.0), zero, quotient))


def _floor_quotient(x: Expr, y: Expr) -> Expr:
    """Round towards minus infinity: C's division, which Triton has, rounds towards zero."""
    quotient, rest = call("int_div", x, y), call("int_mod", x, y)
    return where(_is_against(rest, y), quotient - 1, quotient)


@rule("neg.default", "neg_.default")
def neg(builder: Builder, self: Value) -> Value:
    return builder.pointwise("neg", -elements(builder, self)[0])


@rule("abs.default", "abs_.default")
def absolute(builder: Builder, self: Value) -> Value:
    return builder.pointwise("abs", call("abs", *elements(builder, self)))


@rule("addcmul.default", "addcmul_.default")
def addcmul(builder: Builder, self: Value, tensor1: Value, tensor2: Value, value: Any) -> Value:
    x, a, b, factor = elements(builder, self, tensor1, tensor2, value)
    return builder.pointwise("addcmul", x + (a * b if value == 1 else factor * a * b))


@rule("addcdiv.default", "addcdiv_.default")
def addcdiv(builder: Builder, self: Value, tensor1: Value, tensor2: Value, value: Any) -> Value:
    x, a, b, factor = elements(builder, self, tensor1, tensor2, value)
    return builder.pointwise("addcdiv", x + (a / b if value == 1 else factor * a / b))


@rule("lerp.Scalar", "lerp.Tensor")
def lerp(builder: Builder, self: Value, end: Value, weight: Any) -> Value:
    x, y, w = elements(builder, self, end, weight)
    near = call("abs", w) < 0.5  # PyTorch's formula: exact at both ends
    return builder.pointwise("lerp", where(near, x + w * (y - x), y - (y - x) * (1.0 - w)))
