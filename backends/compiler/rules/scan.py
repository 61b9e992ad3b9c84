"""Scans along a dimension: cumsum, cumprod, logcumsumexp, cummax and cummin."""

from __future__ import annotations

from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.cast import convert
from backends.compiler.rules.operand import needs_float32


def scanned(
    builder: Builder,
    kind: str,
    label: str,
    x: Value,
    dim: int,
    dtype: torch.dtype,
    *,
    reverse: bool = False,
    exclusive: bool = False,
) -> Value:
    """Scan x along a dimension into `dtype`."""
    if not x.shape or 0 in x.hints:
        raise Declined(f"{label} of a single number or of nothing")
    if dtype not in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32):
        raise Declined(f"{label} of {dtype}")
    if x.shape[dim].hint == 1:
        if exclusive:
            raise Declined("")
        return builder.pointwise(label, builder.element(x, dtype), dtype)
    return builder.scan(kind, x, dim % len(x.shape), dtype, label=label, reverse=reverse, exclusive=exclusive)


def running(builder: Builder, kind: str, self: Value, dim: int, dtype: Any, **way: bool) -> Value:
    """Add or multiply up along a dimension: integers in int64, or in the dtype that is asked for."""
    wanted = dtype or builder.dtype
    if not wanted.is_floating_point and wanted != torch.int64:
        raise Declined(f"cum{kind} of {wanted}")
    x = convert(builder, self, wanted) if self.dtype != wanted else self
    return scanned(builder, kind, f"cum{kind}", x, dim, builder.dtype, **way)


@rule("cumsum.default")
def cumsum(builder: Builder, self: Value, dim: int, dtype: Any = None) -> Value:
    return running(builder, "sum", self, dim, dtype)


@rule("cumprod.default")
def cumprod(builder: Builder, self: Value, dim: int, dtype: Any = None) -> Value:
    return running(builder, "prod", self, dim, dtype)


@rule("logcumsumexp.default")
def logcumsumexp(builder: Builder, self: Value, dim: int) -> Value:
    needs_float32(builder)
    return scanned(builder, "logsumexp", "logcumsumexp", self, dim, self.dtype)


@rule("cummax.default")
def cummax(builder: Builder, self: Value, dim: int) -> tuple[Value, Value]:
    return _extremes(builder, "max", self, dim)


@rule("cummin.default")
def cummin(builder: Builder, self: Value, dim: int) -> tuple[Value, Value]:
    return _extremes(builder, "min", self, dim)


def _extremes(builder: Builder, kind: str, x: Value, dim: int) -> tuple[Value, Value]:
    if x.shape and x.shape[dim].hint == 1:
        raise Declined(f"cum{kind} of a single element")
    values = scanned(builder, kind, f"cum{kind}", x, dim, x.dtype)
    return values, builder.scan(f"arg{kind}", x, dim % len(x.shape), torch.int64, label=f"cum{kind}_indices")
