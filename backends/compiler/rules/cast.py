"""Conversion of an element's dtype."""

from __future__ import annotations

from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import cast, compute_dtype
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule

KEEPS_ORDER = (None, torch.preserve_format, torch.contiguous_format)


@rule("to.dtype", "_to_copy.default", "to.device", "to.dtype_layout", "to.other", "type_as.default")
def to_dtype(
    builder: Builder,
    self: Value,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
    other: Value | None = None,
) -> Value:
    if memory_format not in KEEPS_ORDER or layout not in (None, torch.strided):
        raise Declined("another memory format")
    if device is not None and torch.device(device).type != "cpu":  # captured on the CPU: any other is a move
        raise Declined("moves to another device")
    if copy and self.dtype == builder.dtype and builder.program_writes_in_place:
        return builder.pointwise("to", builder.element(self, self.dtype))
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
