"""Conversion of an element's dtype."""

from __future__ import annotations

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import (
    cast,
    compute_dtype,
)
from backends.compiler.ir import Value
from backends.compiler.rules import rule


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
