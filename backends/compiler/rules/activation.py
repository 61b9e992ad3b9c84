"""Activations: each is a formula of one element, written as PyTorch's documentation gives it."""

from __future__ import annotations

from typing import Any

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, call, where
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.bound import clamped
from backends.compiler.rules.operand import elements


def sigmoid(x: Expr) -> Expr:
    return call("sigmoid", x)


def tanh(x: Expr) -> Expr:
    return call("tanh", x)


def exp(x: Expr) -> Expr:
    return call("exp", x)


def log1p(x: Expr) -> Expr:
    return call("log1p", x)


def expm1(x: Expr) -> Expr:
    return call("expm1", x)


def relu_of(x: Expr) -> Expr:
    """Negative numbers become 0; NaN stays."""
    return where(x < 0, 0.0 if x.dtype.is_floating_point else 0, x)


def softplus_of(x: Expr) -> Expr:
    """log(1 + exp(x)) without overflow: max(x, 0) + log1p(exp(-|x|))."""
    return relu_of(x) + log1p(exp(-call("abs", x)))


@rule("relu.default", "relu_.default")
def relu(builder: Builder, self: Value) -> Value:
    return builder.pointwise("relu", relu_of(elements(builder, self)[0]))


@rule("relu6.default", "relu6_.default")
def relu6(builder: Builder, self: Value) -> Value:
    return builder.pointwise("relu6", clamped(builder, elements(builder, self)[0], 0, 6))


@rule("leaky_relu.default", "leaky_relu_.default")
def leaky_relu(builder: Builder, self: Value, negative_slope: Any) -> Value:
    x, slope = elements(builder, self, negative_slope)
    return builder.pointwise("leaky_relu", where(x > 0, x, slope * x))


@rule("prelu.default")
def prelu(builder: Builder, self: Value, weight: Value) -> Value:
    if weight.shape and weight.shape[0].hint != 1:
        for _ in range(len(self.shape) - 2):
            weight = builder.unsqueeze(weight, len(weight.shape))
    x, slope = elements(builder, self, weight)
    return builder.pointwise("prelu", where(x > 0, x, slope * x))


@rule("gelu.default", "gelu_.default")
def gelu(builder: Builder, self: Value, approximate: str) -> Value:
    (x,) = elements(builder, self)
    if approximate == "tanh":
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        return builder.pointwise("gelu_tanh", 0.5 * x * (1.0 + tanh(inner)))
    if approximate != "none":
        raise Declined(f"gelu approximate={approximate!r}")
    return builder.pointwise("gelu", 0.5 * x * (1.0 + call("erf", x * 0.7071067811865476)))


@rule("silu.default", "silu_.default")
def silu(builder: Builder, self: Value) -> Value:
    (x,) = elements(builder, self)
    return builder.pointwise("silu", x * sigmoid(x))


@rule("mish.default", "mish_.default")
def mish(builder: Builder, self: Value) -> Value:
    (x,) = elements(builder, self)
    # tanh(log(1 + e)) = n / (n + 2) with n = e * (e + 2), e = exp(x): no logarithm, no cancellation
    power = builder.pointwise("_exp", exp(where(x > 20.0, 20.0, x)), x.dtype)
    e = builder.element(power, x.dtype)
    n = builder.element(builder.pointwise("_ratio", e * (e + 2.0), x.dtype), x.dtype)
    return builder.pointwise("mish", x * (n / (n + 2.0)))


@rule("softplus.default")
def softplus(builder: Builder, self: Value, beta: Any, threshold: Any) -> Value:
    x, scale, limit = elements(builder, self, beta, threshold)
    if beta == 1:
        return builder.pointwise("softplus", where(x > limit, x, softplus_of(x)))
    return builder.pointwise("softplus", where(x * scale > limit, x, softplus_of(x * scale) / scale))


@rule("elu.default", "elu_.default")
def elu(builder: Builder, self: Value, alpha: Any, scale: Any, input_scale: Any) -> Value:
    x, a, s, i = elements(builder, self, alpha, scale, input_scale)
    inside = expm1(x if input_scale == 1 else x * i)
    negative = inside if alpha == 1 else a * inside
    result = where(x > 0, x, negative)
    return builder.pointwise("elu", result if scale == 1 else result * s)


@rule("celu.default", "celu_.default")
def celu(builder: Builder, self: Value, alpha: Any) -> Value:
    x, a = elements(builder, self, alpha)
    return builder.pointwise("celu", where(x > 0, x, a * expm1(x / a)))


@rule("selu.default", "selu_.default")
def selu(builder: Builder, self: Value) -> Value:
    (x,) = elements(builder, self)
    alpha, scale = 1.6732632423543772, 1.0507009873554805  # Klambauer et al., 2017
    return builder.pointwise("selu", scale * where(x > 0, x, alpha * expm1(x)))


@rule("hardtanh.default", "hardtanh_.default")
def hardtanh(builder: Builder, self: Value, min_val: Any, max_val: Any) -> Value:
    return builder.pointwise("hardtanh", clamped(builder, elements(builder, self)[0], min_val, max_val))


@rule("hardsigmoid.default", "hardsigmoid_.default")
def hardsigmoid(builder: Builder, self: Value) -> Value:
    (x,) = elements(builder, self)
    return builder.pointwise("hardsigmoid", clamped(builder, x + 3.0, 0.0, 6.0) / 6.0)


@rule("hardswish.default", "hardswish_.default")
def hardswish(builder: Builder, self: Value) -> Value:
    (x,) = elements(builder, self)
    return builder.pointwise("hardswish", x * clamped(builder, x + 3.0, 0.0, 6.0) / 6.0)


@rule("hardshrink.default")
def hardshrink(builder: Builder, self: Value, lambd: Any) -> Value:
    x, limit = elements(builder, self, lambd)
    return builder.pointwise("hardshrink", where((x >= -limit) & (x <= limit), 0.0, x))


@rule("softshrink.default")
def softshrink(builder: Builder, self: Value, lambd: Any) -> Value:
    x, limit = elements(builder, self, lambd)
    return builder.pointwise("softshrink", where(x > limit, x - limit, where(x < -limit, x + limit, x * 0.0)))


@rule("threshold.default", "threshold_.default")
def threshold(builder: Builder, self: Value, threshold: Any, value: Any) -> Value:
    x, limit, fill = elements(builder, self, threshold, value)
    return builder.pointwise("threshold", where(x <= limit, fill, x))


@rule("log_sigmoid.default")
def log_sigmoid(builder: Builder, self: Value) -> Value:
    (x,) = elements(builder, self)
    return builder.pointwise("log_sigmoid", where(x < 0, x, 0.0) - log1p(exp(-call("abs", x))))


@rule("rrelu.default", "rrelu_.default")
def rrelu(builder: Builder, self: Value, lower: Any, upper: Any, training: bool, generator: Any = None) -> Value:
    if training:
        raise Declined("random numbers keep PyTorch's order")
    builder.refuse_training()
    x, low, high = elements(builder, self, lower, upper)
    return builder.pointwise("rrelu", where(x >= 0, x, (low + high) / 2.0 * x))


@rule("dropout.default", "alpha_dropout.default", "feature_dropout.default")
def dropout(builder: Builder, input: Value, p: float, train: bool) -> Value:
    if train and p != 0:
        raise Declined("random numbers keep PyTorch's order")
    return input


@rule("dropout_.default")
def dropout_(builder: Builder, self: Value, p: float, train: bool) -> Value:
    return dropout(builder, self, p, train)
