"""Arithmetic, comparison, logic and plain functions of one element."""

from __future__ import annotations

from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import (
    Expr, Literal, Scalar, as_expr, binary, call, cast, compute_dtype, equal, is_nan, where,
)
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def number(builder: Builder, value: Any) -> Any:
    """Use a run-time number's value to choose a kernel: the file then refuses another value."""
    return builder.pin(value) if isinstance(value, Scalar) else value


def elements(builder: Builder, *operands: Any) -> list[Expr]:
    """Read operands in the dtype of the result."""
    return [builder.element(operand, builder.dtype) for operand in operands]


def common_dtype(*operands: Any) -> torch.dtype:
    """Promote as PyTorch does; 0-d tensors and Python numbers weigh less than tensors with dimensions."""

    def stand_in(operand: Any) -> Any:
        if isinstance(operand, Value):
            return torch.empty([1] * len(operand.shape), dtype=operand.dtype, device="meta")
        return operand.number if isinstance(operand, Scalar) else operand

    left, *rest = (stand_in(operand) for operand in operands)
    dtype = left.dtype if isinstance(left, torch.Tensor) else torch.result_type(rest[0], left)
    for right in rest:
        dtype = torch.result_type(left, right)
    return dtype


def needs_float32(builder: Builder, dtype: torch.dtype | None = None) -> None:
    """Decline float64 where Triton's function, or ours, is only good to float32."""
    if (dtype or builder.dtype) == torch.float64:
        raise Declined("float64: Triton's function is only accurate to float32")


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
        raise Declined("rounding division of floats")
    quotient = call("int_div", x, y)
    return builder.pointwise("div", quotient if rounding_mode == "trunc" else _floor_quotient(x, y))


@rule("floor_divide.default", "floor_divide.Scalar", "floor_divide_.Tensor")
def floor_divide(builder: Builder, self: Value, other: Any) -> Value:
    return div_mode(builder, self, other, "floor")


@rule("remainder.Tensor", "remainder.Scalar", "remainder_.Tensor", "remainder_.Scalar")
def remainder(builder: Builder, self: Value, other: Any) -> Value:
    if builder.dtype.is_floating_point:
        raise Declined("remainder of floats")
    x, y = elements(builder, self, other)
    return builder.pointwise("remainder", x - _floor_quotient(x, y) * y)


def _floor_quotient(x: Expr, y: Expr) -> Expr:
    """Round towards minus infinity: C's division, which Triton has, rounds towards zero."""
    quotient, rest = call("int_div", x, y), call("int_mod", x, y)
    below = binary("!=", rest, 0, torch.bool) & binary("!=", rest < 0, y < 0, torch.bool)
    return where(below, quotient - 1, quotient)


@rule("neg.default", "neg_.default")
def neg(builder: Builder, self: Value) -> Value:
    return builder.pointwise("neg", -elements(builder, self)[0])


@rule("abs.default", "abs_.default")
def absolute(builder: Builder, self: Value) -> Value:
    return builder.pointwise("abs", call("abs", *elements(builder, self)))


@rule("square.default")
def square(builder: Builder, self: Value) -> Value:
    (x,) = elements(builder, self)
    return builder.pointwise("square", x * x)


@rule("reciprocal.default")
def reciprocal(builder: Builder, self: Value) -> Value:
    return builder.pointwise("reciprocal", 1.0 / elements(builder, self)[0])


@rule("pow.Tensor_Scalar", "pow_.Scalar")
def power(builder: Builder, self: Value, exponent: Any) -> Value:
    exponent = number(builder, exponent)
    (x,) = elements(builder, self)
    if float(exponent).is_integer() and 0 <= exponent <= 16:
        return builder.pointwise("pow" if exponent != 2 else "square", _product(x, int(exponent)))
    if not builder.dtype.is_floating_point or builder.dtype == torch.float64 and abs(exponent) not in (0.5, 1):
        raise Declined(f"power {exponent}")
    if float(exponent).is_integer() and -16 <= exponent < 0:
        return builder.pointwise("pow", 1.0 / _product(x, -int(exponent)))
    if exponent == 0.5:
        return builder.pointwise("sqrt", call("sqrt", x))
    if exponent == -0.5:
        return builder.pointwise("rsqrt", 1.0 / call("sqrt", x))
    if abs(exponent) > 8:
        raise Declined(f"power {exponent}: exp(log(x) * p) is not accurate enough")
    return builder.pointwise("pow", call("exp", call("log", x) * float(exponent)))


def _product(x: Expr, times: int) -> Expr:
    if times == 0:
        return Literal(x.dtype, 1.0 if x.dtype.is_floating_point else 1)
    half = _product(x, times // 2) if times > 1 else None
    if half is None:
        return x
    return half * half if times % 2 == 0 else half * half * x


@rule("hypot.default")
def hypot(builder: Builder, self: Value, other: Value) -> Value:
    needs_float32(builder)
    x, y = (call("abs", operand) for operand in elements(builder, self, other))
    high, low = call("maximum", x, y), call("minimum", x, y)
    ratio = where(high > 0.0, low / high, low)  # scaled, so that squares neither overflow nor vanish
    scaled = high * call("sqrt", 1.0 + ratio * ratio)
    infinite = equal(high, float("inf")) | equal(low, float("inf"))
    return builder.pointwise("hypot", where(infinite, call("maximum", high, low), scaled))


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


# ---- minima, maxima, clamping: NaN wins, as in PyTorch -----------------------------------------


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
def clamp(builder: Builder, self: Value, min: Any, max: Any) -> Value:  # noqa: A002
    if min is None and max is None:
        raise Declined("clamp without bounds")
    return builder.pointwise("clamp", clamped(builder, elements(builder, self)[0], min, max))


def clamped(builder: Builder, x: Expr, low: Any, high: Any) -> Expr:
    """Bound x; a NaN stays one because no comparison with it is true."""
    if low is not None:
        (bound,) = elements(builder, low)
        x = call("maximum", x, bound) if isinstance(low, Value) else where(x < bound, bound, x)
    if high is not None:
        (bound,) = elements(builder, high)
        x = call("minimum", x, bound) if isinstance(high, Value) else where(x > bound, bound, x)
    return x


@rule("clamp_min.default", "clamp_min_.default", "clamp_min.Tensor")
def clamp_min(builder: Builder, self: Value, min: Any) -> Value:  # noqa: A002
    return clamp(builder, self, min, None)


@rule("clamp_max.default", "clamp_max_.default", "clamp_max.Tensor")
def clamp_max(builder: Builder, self: Value, max: Any) -> Value:  # noqa: A002
    return clamp(builder, self, None, max)


# ---- comparison and logic ----------------------------------------------------------------------


def _comparison(symbol: str, name: str) -> None:
    @rule(f"{name}.Tensor", f"{name}.Scalar")
    def compare(builder: Builder, self: Value, other: Any) -> Value:
        dtype = common_dtype(self, other)
        x, y = (rounded(builder, operand, dtype) for operand in (self, other))
        return builder.pointwise(name, binary(symbol, x, y, torch.bool))


def rounded(builder: Builder, operand: Any, dtype: torch.dtype) -> Expr:
    """Read an operand as PyTorch sees it: half types rounded, since a comparison may hang on the last bit."""
    x = builder.element(operand, dtype)
    computed = isinstance(operand, Value) and operand.op is not None
    return cast(cast(x, dtype), x.dtype) if computed and dtype in (torch.float16, torch.bfloat16) else x


for _symbol, _name in {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}.items():
    _comparison(_symbol, _name)


def _truth(builder: Builder, operand: Value) -> Expr:
    x = builder.element(operand, operand.dtype)
    return x if x.dtype == torch.bool else binary("!=", x, 0, torch.bool)


@rule("logical_and.default")
def logical_and(builder: Builder, self: Value, other: Value) -> Value:
    return builder.pointwise("logical_and", _truth(builder, self) & _truth(builder, other))


@rule("logical_or.default")
def logical_or(builder: Builder, self: Value, other: Value) -> Value:
    return builder.pointwise("logical_or", _truth(builder, self) | _truth(builder, other))


@rule("logical_xor.default")
def logical_xor(builder: Builder, self: Value, other: Value) -> Value:
    return builder.pointwise("logical_xor", binary("^", _truth(builder, self), _truth(builder, other)))


@rule("logical_not.default")
def logical_not(builder: Builder, self: Value) -> Value:
    return builder.pointwise("logical_not", call("not", _truth(builder, self)))


def _bitwise(symbol: str, *names: str) -> None:
    @rule(*names)
    def apply(builder: Builder, self: Value, other: Any) -> Value:
        x, y = elements(builder, self, other)
        return builder.pointwise(names[0].split(".")[0], binary(symbol, x, y))


_bitwise("&", "bitwise_and.Tensor", "bitwise_and.Scalar", "__and__.Tensor", "__and__.Scalar")
_bitwise("|", "bitwise_or.Tensor", "bitwise_or.Scalar", "__or__.Tensor", "__or__.Scalar")
_bitwise("^", "bitwise_xor.Tensor", "bitwise_xor.Scalar", "__xor__.Tensor", "__xor__.Scalar")
_bitwise("<<", "bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "__lshift__.Scalar",
         "__lshift__.Tensor")
_bitwise(">>", "bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "__rshift__.Scalar",
         "__rshift__.Tensor")


@rule("bitwise_not.default")
def bitwise_not(builder: Builder, self: Value) -> Value:
    return builder.pointwise("bitwise_not", call("not", *elements(builder, self)))


@rule("isnan.default")
def isnan(builder: Builder, self: Value) -> Value:
    return builder.pointwise("isnan", is_nan(builder.element(self, self.dtype)))


@rule("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where_self(builder: Builder, condition: Value, self: Any, other: Any) -> Value:
    x, y = elements(builder, self, other)
    return builder.pointwise("where", where(_truth(builder, condition), x, y))


@rule("masked_fill.Scalar", "masked_fill_.Scalar", "masked_fill.Tensor", "masked_fill_.Tensor")
def masked_fill(builder: Builder, self: Value, mask: Value, value: Any) -> Value:
    x, fill = elements(builder, self, value)
    return builder.pointwise("masked_fill", where(_truth(builder, mask), fill, x))


@rule("nan_to_num.default")
def nan_to_num(builder: Builder, self: Value, nan: Any, posinf: Any, neginf: Any) -> Value:
    if not builder.dtype.is_floating_point:
        raise Declined("nan_to_num of integers")
    limits = torch.finfo(builder.dtype)
    (x,) = elements(builder, self)
    high, low = (limits.max if posinf is None else posinf), (limits.min if neginf is None else neginf)
    finite = where(equal(x, float("inf")), high, where(equal(x, float("-inf")), low, x))
    return builder.pointwise("nan_to_num", where(is_nan(x), 0.0 if nan is None else nan, finite))


# ---- functions Triton has ----------------------------------------------------------------------


def _function(name: str, *, exact: bool = False) -> None:
    @rule(f"{name}.default", f"{name}_.default")
    def apply(builder: Builder, self: Value) -> Value:
        if not exact:
            needs_float32(builder)
        return builder.pointwise(name, call(name, *elements(builder, self)))


for _name in ("exp", "exp2", "log", "log2", "sin", "cos", "erf", "sigmoid", "tanh", "log1p", "expm1"):
    _function(_name)
for _name in ("sqrt", "floor", "ceil"):
    _function(_name, exact=True)


@rule("rsqrt.default", "rsqrt_.default")
def rsqrt(builder: Builder, self: Value) -> Value:
    return builder.pointwise("rsqrt", 1.0 / call("sqrt", *elements(builder, self)))


@rule("log10.default")
def log10(builder: Builder, self: Value) -> Value:
    needs_float32(builder)
    return builder.pointwise("log10", call("log", *elements(builder, self)) * 0.4342944819032518)


@rule("trunc.default", "fix.default")
def trunc(builder: Builder, self: Value) -> Value:
    (x,) = elements(builder, self)
    return builder.pointwise("trunc", where(x < 0, call("ceil", x), call("floor", x)))


@rule("sign.default", "sgn.default")
def sign(builder: Builder, self: Value) -> Value:
    if builder.dtype == torch.bool:
        raise Declined("sign of bool")
    (x,) = elements(builder, self)
    return builder.pointwise("sign", where(x > 0, as_expr(1, x.dtype), where(x < 0, as_expr(-1, x.dtype), 0)))


@rule("to.dtype", "_to_copy.default", "to.device", "to.dtype_layout", "type_as.default")
def to_dtype(builder: Builder, self: Value) -> Value:
    return convert(builder, self, builder.dtype)


def convert(builder: Builder, x: Value, dtype: torch.dtype) -> Value:
    """Convert a tensor's dtype; the half types round even inside a fused kernel, as the user asked for it."""
    if x.dtype == dtype:
        return x
    element = builder.element(x, x.dtype)
    if x.dtype.is_floating_point and not dtype.is_floating_point and dtype != torch.bool:
        return builder.pointwise("to", cast(element, dtype), dtype)
    narrowed = cast(cast(element, dtype), compute_dtype(dtype)) if dtype != compute_dtype(dtype) else element
    return builder.pointwise("to", narrowed, dtype)


