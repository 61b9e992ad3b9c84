"""Plain functions of one element: those Triton has, and those a short formula gives exactly enough."""

from __future__ import annotations

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import (
    as_expr,
    call,
    where,
)
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.operand import elements, needs_float32


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
