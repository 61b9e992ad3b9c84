"""Tensors that are one number everywhere, and masks that depend on the place alone."""

from __future__ import annotations

from typing import Any

from backends.compiler.build import Builder
from backends.compiler.expression import Literal, where
from backends.compiler.ir import Value
from backends.compiler.rules import rule
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
