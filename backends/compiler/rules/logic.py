"""Comparison, logic and choice between elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, binary, call, equal, is_nan, where
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.operand import common_dtype, elements, rounded, truth


def _comparison(symbol: str, name: str) -> None:
    @rule(f"{name}.Tensor", f"{name}.Scalar")
    def compare(builder: Builder, self: Value, other: Any) -> Value:
        dtype = common_dtype(self, other)
        x, y = (rounded(builder, operand, dtype) for operand in (self, other))
        return builder.pointwise(name, binary(symbol, x, y, torch.bool))


for _symbol, _name in {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}.items():
    _comparison(_symbol, _name)


@rule("logical_and.default")
def logical_and(builder: Builder, self: Value, other: Value) -> Value:
    return builder.pointwise("logical_and", truth(builder, self) & truth(builder, other))


@rule("logical_or.default")
def logical_or(builder: Builder, self: Value, other: Value) -> Value:
    return builder.pointwise("logical_or", truth(builder, self) | truth(builder, other))


@rule("logical_xor.default")
def logical_xor(builder: Builder, self: Value, other: Value) -> Value:
    return builder.pointwise("logical_xor", binary("^", truth(builder, self), truth(builder, other)))


@rule("logical_not.default")
def logical_not(builder: Builder, self: Value) -> Value:
    return builder.pointwise("logical_not", call("not", truth(builder, self)))


def _bitwise(symbol: str, *names: str) -> None:
    @rule(*names)
    def apply(builder: Builder, self: Value, other: Any) -> Value:
        x, y = elements(builder, self, other)
        return builder.pointwise(names[0].split(".")[0], binary(symbol, x, y))


_bitwise("&", "bitwise_and.Tensor", "bitwise_and.Scalar", "__and__.Tensor", "__and__.Scalar")
_bitwise("|", "bitwise_or.Tensor", "bitwise_or.Scalar", "__or__.Tensor", "__or__.Scalar")
_bitwise("^", "bitwise_xor.Tensor", "bitwise_xor.Scalar", "__xor__.Tensor", "__xor__.Scalar")
_bitwise(
    "<<", "bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "__lshift__.Scalar", "__lshift__.Tensor"
)
_bitwise(
    ">>", "bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "__rshift__.Scalar", "__rshift__.Tensor"
)


@rule("bitwise_not.default")
def bitwise_not(builder: Builder, self: Value) -> Value:
    return builder.pointwise("bitwise_not", call("not", *elements(builder, self)))


@rule("isnan.default")
def isnan(builder: Builder, self: Value) -> Value:
    return builder.pointwise("isnan", is_nan(builder.element(self, self.dtype)))


def _tells(name: str, formula: Callable[[Expr], Expr]) -> None:
    @rule(f"{name}.default")
    def apply(builder: Builder, self: Value) -> Value:
        x = rounded(builder, self, self.dtype)  # a half type overflows where the float32 behind it does not
        if not self.dtype.is_floating_point:
            raise Declined(f"{name} of {self.dtype}")
        return builder.pointwise(name, formula(x))


INFINITY = float("inf")
_tells("isinf", lambda x: equal(call("abs", x), INFINITY))
_tells("isfinite", lambda x: call("abs", x) < INFINITY)
_tells("isposinf", lambda x: equal(x, INFINITY))
_tells("isneginf", lambda x: equal(x, -INFINITY))


@rule("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where_self(builder: Builder, condition: Value, self: Any, other: Any) -> Value:
    x, y = elements(builder, self, other)
    return builder.pointwise("where", where(truth(builder, condition), x, y))


@rule("masked_fill.Scalar", "masked_fill_.Scalar", "masked_fill.Tensor", "masked_fill_.Tensor")
def masked_fill(builder: Builder, self: Value, mask: Value, value: Any) -> Value:
    x, fill = elements(builder, self, value)
    return builder.pointwise("masked_fill", where(truth(builder, mask), fill, x))


@rule("nan_to_num.default")
def nan_to_num(builder: Builder, self: Value, nan: Any, posinf: Any, neginf: Any) -> Value:
    if not builder.dtype.is_floating_point:
        raise Declined("nan_to_num of integers")
    limits = torch.finfo(builder.dtype)
    (x,) = elements(builder, self)
    high, low = (limits.max if posinf is None else posinf), (limits.min if neginf is None else neginf)
    finite = where(equal(x, float("inf")), high, where(equal(x, float("-inf")), low, x))
    return builder.pointwise("nan_to_num", where(is_nan(x), 0.0 if nan is None else nan, finite))
