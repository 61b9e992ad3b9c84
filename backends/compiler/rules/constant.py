"""Tensors that are one number everywhere, and masks that depend on the place alone."""

from __future__ import annotations

import math
from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Literal, where
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.cast import KEEPS_ORDER
from backends.compiler.rules.operand import number


@rule("tril.default", "tril_.default")
def tril(builder: Builder, self: Value, diagonal: Any) -> Value:
    return _triangle(builder, "tril", self, diagonal)


@rule("triu.default", "triu_.default")
def triu(builder: Builder, self: Value, diagonal: Any) -> Value:
    return _triangle(builder, "triu", self, diagonal)


def _triangle(builder: Builder, label: str, x: Value, diagonal: Any) -> Value:
    rank, shift = len(x.shape), number(builder, diagonal)
    right, row = builder.index(x, rank - 1), builder.index(x, rank - 2)
    edge = row + shift if shift else row
    inside = right <= edge if label == "tril" else right >= edge
    element = builder.element(x, x.dtype)
    zero = Literal(element.dtype, 0.0 if element.dtype.is_floating_point else 0)
    return builder.pointwise(label, where(inside, element, zero))


def _alike(name: str, number: float) -> None:
    @rule(f"{name}.default")
    def apply(
        builder: Builder,
        self: Value,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: Any = None,
        memory_format: Any = None,
    ) -> Value:
        return _filled(builder, name, self, "", number, dtype, layout, device, memory_format)


_alike("zeros_like", 0)
_alike("ones_like", 1)


@rule("full_like.default")
def full_like(
    builder: Builder,
    self: Value,
    fill_value: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    memory_format: Any = None,
) -> Value:
    value = number(builder, fill_value)
    if not math.isfinite(value):
        raise Declined("a tensor full of infinities")
    return _filled(builder, "full_like", self, f", {value!r}", value, dtype, layout, device, memory_format)


def _filled(
    builder: Builder,
    name: str,
    like: Value,
    text: str,
    value: float,
    dtype: Any,
    layout: Any,
    device: Any,
    memory_format: Any,
) -> Value:
    if builder.program_writes_in_place:
        raise Declined("")  # its numbers may not stay what they are
    plain = layout in (None, torch.strided) and memory_format in KEEPS_ORDER
    if not plain or (device is not None and torch.device(device).type != "cpu"):
        raise Declined("another layout or device")
    kind = f", dtype={dtype}" if dtype is not None else ""
    return builder.constant(name, like, f"torch.{name}({{0}}{text}{kind})", value)
