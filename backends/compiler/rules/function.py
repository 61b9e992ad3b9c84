"""Plain functions of one element: those Triton has, and those a short formula gives exactly enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, as_expr, call, cast, equal, where
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.operand import elements


def _function(name: str, *more: str) -> None:
    @rule(*(more or (f"{name}.default", f"{name}_.default")))
    def apply(builder: Builder, self: Value) -> Value:
        return builder.pointwise(name, call(name, *elements(builder, self)))


for _name in """
    exp exp2 log log2 sin cos tan erf erfc erfinv sigmoid tanh log1p expm1 sqrt acos acosh asin asinh atan atanh lgamma
""".split():
    _function(_name)
_function("i0", "i0.default", "special_i0.default")
for _name in ("i1", "erfcx", "ndtri"):
    _function(_name, f"special_{_name}.default")


def _rounding(name: str, formula: Callable[[Expr], Expr], *more: str) -> None:
    @rule(f"{name}.default", f"{name}_.default", *more)
    def apply(builder: Builder, self: Value) -> Value:
        (x,) = elements(builder, self)
        return builder.pointwise(name, formula(x)) if builder.dtype.is_floating_point else self


def to_even(x: Expr) -> Expr:
    """Round to the nearest integer, halves to the even one."""
    below = call("floor", x)
    rest, is_even = x - below, equal(below, 2.0 * call("floor", 0.5 * below))
    return where((rest < 0.5) | (equal(rest, 0.5) & is_even), below, where(rest > 0.0, below + 1.0, below))


def toward_zero(x: Expr) -> Expr:
    """Drop the fraction."""
    return where(x < 0, call("ceil", x), call("floor", x))


_rounding("floor", lambda x: call("floor", x))
_rounding("ceil", lambda x: call("ceil", x))
_rounding("round", to_even)
_rounding("trunc", toward_zero, "fix.default")


@rule("frac.default")
def frac(builder: Builder, self: Value) -> Value:
    (x,) = elements(builder, self)
    return builder.pointwise("frac", x - toward_zero(x))


@rule("rsqrt.default", "rsqrt_.default")
def rsqrt(builder: Builder, self: Value) -> Value:
    return builder.pointwise("rsqrt", 1.0 / call("sqrt", *elements(builder, self)))


@rule("log10.default")
def log10(builder: Builder, self: Value) -> Value:
    return builder.pointwise("log10", call("log", *elements(builder, self)) * 0.4342944819032518)


@rule("sign.default", "sgn.default")
def sign(builder: Builder, self: Value) -> Value:
    if builder.dtype == torch.bool:
        raise Declined("sign of bool")
    (x,) = elements(builder, self)
    return builder.pointwise("sign", where(x > 0, as_expr(1, x.dtype), where(x < 0, as_expr(-1, x.dtype), 0)))


@rule("rad2deg.default")
def rad2deg(builder: Builder, self: Value) -> Value:
    return builder.pointwise("rad2deg", elements(builder, self)[0] * (180.0 / math.pi))


@rule("deg2rad.default")
def deg2rad(builder: Builder, self: Value) -> Value:
    return builder.pointwise("deg2rad", elements(builder, self)[0] * (math.pi / 180.0))


@rule("cosh.default")
def cosh(builder: Builder, self: Value) -> Value:
    half = _half_exp(elements(builder, self)[0])
    return builder.pointwise("cosh", half + 0.25 / half)


@rule("sinh.default")
def sinh(builder: Builder, self: Value) -> Value:
    (x,) = elements(builder, self)
    half, grown = _half_exp(x), call("expm1", call("abs", x))
    near = 0.5 * (grown + grown / (grown + 1.0))  # the difference of two exponentials cancels near 0
    size = where(call("abs", x) < 1.0, near, half - 0.25 / half)
    return builder.pointwise("sinh", where(x < 0.0, -size, size))


def _half_exp(x: Expr) -> Expr:
    """exp(|x|) / 2, halved in the exponent: exp(89) alone is past float32."""
    return call("exp", call("abs", x) - math.log(2.0))


@rule("special_log_ndtr.default")
def log_ndtr(builder: Builder, self: Value) -> Value:
    (x,) = elements(builder, self)
    z = x * math.sqrt(0.5)
    far = call("log", 0.5 * call("erfcx", -z)) - z * z
    return builder.pointwise("log_ndtr", where(x < -1.0, far, call("log1p", -0.5 * call("erfc", z))))


@rule("signbit.default")
def signbit(builder: Builder, self: Value) -> Value:
    """Also of -0.0 and of a NaN that has one."""
    x = builder.element(self, self.dtype)
    one = as_expr(1.0, x.dtype)
    is_float = x.dtype.is_floating_point
    negative = call("copysign", one, x) < 0.0 if is_float else x < as_expr(0, x.dtype)
    if x.dtype == torch.bool:
        raise Declined("signbit of bool")
    return builder.pointwise("signbit", negative)


@rule("atan2.default", "atan2_.default", "arctan2.default")
def atan2(builder: Builder, self: Value, other: Value) -> Value:
    return builder.pointwise("atan2", call("atan2", *elements(builder, self, other)))


@rule("hypot.default")
def hypot(builder: Builder, self: Value, other: Value) -> Value:
    return builder.pointwise("hypot", call("hypot", *elements(builder, self, other)))


@rule("copysign.Tensor", "copysign.Scalar", "copysign_.Tensor", "copysign_.Scalar")
def copysign(builder: Builder, self: Value, other: Any) -> Value:
    return builder.pointwise("copysign", call("copysign", *elements(builder, self, other)))


@rule("logaddexp.default")
def logaddexp(builder: Builder, self: Value, other: Value) -> Value:
    x, y = elements(builder, self, other)
    sum_ = call("maximum", x, y) + call("log1p", call("exp", -call("abs", x - y)))
    return builder.pointwise("logaddexp", where(equal(x, y), x + math.log(2.0), sum_))  # inf - inf is NaN


@rule("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other", "special_xlogy.default")
def xlogy(builder: Builder, self: Any, other: Any) -> Value:
    x, y = elements(builder, self, other)
    return builder.pointwise("xlogy", where(equal(x, 0) & equal(y, y), 0.0, x * call("log", y)))


@rule("special_xlog1py.default", "special_xlog1py.self_scalar", "special_xlog1py.other_scalar")
def xlog1py(builder: Builder, self: Any, other: Any) -> Value:
    x, y = elements(builder, self, other)
    return builder.pointwise("xlog1py", where(equal(x, 0) & equal(y, y), 0.0, x * call("log1p", y)))


@rule("special_entr.default")
def entr(builder: Builder, self: Value) -> Value:
    (x,) = elements(builder, self)
    return builder.pointwise("entr", where(equal(x, 0), 0.0, where(x < 0, float("-inf"), -x * call("log", x))))


@rule("logit.default")
def logit(builder: Builder, self: Value, eps: Any) -> Value:
    (x,) = elements(builder, self)
    if eps is not None:
        (small,) = elements(builder, eps)
        x = where(x < small, small, where(x > 1.0 - small, 1.0 - small, x))
    return builder.pointwise("logit", call("log", x / (1.0 - x)))


@rule("heaviside.default")
def heaviside(builder: Builder, self: Value, values: Value) -> Value:
    x, at_zero = elements(builder, self, values)
    if builder.dtype == torch.bool:
        raise Declined("heaviside of booleans")
    return builder.pointwise("heaviside", where(equal(x, 0), at_zero, cast(x > 0, x.dtype)))
