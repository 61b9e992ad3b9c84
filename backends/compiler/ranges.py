"""Numbers that follow from the place alone, as those of arange: a kernel computes them and reads no memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from backends.compiler.expression import (
    Expr,
    Index,
    Literal,
    Ref,
    as_expr,
    cast,
    compute_dtype,
    transform,
    walk,
    where,
)
from backends.compiler.indexed import PLACE, Read, plus, times

if TYPE_CHECKING:
    from backends.compiler.ir import Shape, Value

LARGEST = 40
"""Nodes of a formula that is still quicker computed than read."""


@dataclass(frozen=True)
class Formula:
    """An element as an expression over its own coordinates, and the tensor's lengths."""

    expr: Expr
    extents: tuple[Expr, ...]


def counted(start: Expr, step: Expr, dtype: torch.dtype, extent: Expr) -> Formula | None:
    """Describe an arange of whole numbers."""
    if start.dtype.is_floating_point or step.dtype.is_floating_point:
        return None
    place = Index(PLACE, 1)
    scaled = times(place, step) if isinstance(step, Literal) else place * step
    at = plus(scaled, start) if isinstance(start, Literal) else scaled + start
    return Formula(cast(at, compute_dtype(dtype)), (extent,))


def element(value: Value, places: Sequence[Expr]) -> Expr | None:
    """Write the element at these places, behind views; None where memory must be read."""
    from backends.compiler.ir import View
    from backends.compiler.through import at

    while value.formula is None and isinstance(op := value.op, View):
        if op.map is None:
            return None
        value, places = op.source, at(op.map.indices, places)
    return at((value.formula.expr,), places)[0] if value.formula is not None else None


def is_free(value: Value) -> bool:
    """Tell whether nothing of a tensor must be read."""
    return element(value, [Literal(PLACE, 0)] * len(value.shape)) is not None


def own_places(own: Shape) -> list[Expr]:
    """The coordinates of an operand, counted from the last as those of what it broadcasts to."""
    rank = len(own)
    return [Literal(PLACE, 0) if size.hint == 1 else Index(PLACE, rank - dim) for dim, size in enumerate(own)]


def fits(value: Value, others: Sequence[Value]) -> bool:
    """Tell whether the lengths of a tensor that is not read are sure to be those of the operands beside it."""
    for from_end in range(1, len(value.shape) + 1):
        size = value.shape[-from_end]
        beside = [other.shape[-from_end] for other in others if len(other.shape) >= from_end]
        if size.hint != 1 and any(one.hint != 1 and (one.is_number or one != size) for one in beside):
            return False
    return True


def combined(tree: Expr, extents: Sequence[Expr]) -> Formula | None:
    """Describe what is computed of such tensors alone."""
    made = transform(tree, lambda node: _of(node))
    is_small = len(walk(made)) <= LARGEST
    return Formula(made, tuple(extents)) if is_small and not any(isinstance(n, Ref) for n in walk(made)) else None


def inserted(tree: Expr, values: Sequence[Value]) -> Expr:
    """Put the formula for every element of these tensors that a tree reads."""

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Ref) and node.value in values:
            return _of(node)
        if not isinstance(node, Read) or node.value not in values or node.is_checked:
            return None
        indices = [inserted(index, values) for index in node.indices]
        found = element(node.value, indices)
        if found is None or node.valid is None:
            return found
        return where(inserted(node.valid, values), found, as_expr(node.fill, found.dtype))

    return transform(tree, change)


def _of(node: Expr) -> Expr | None:
    if not isinstance(node, Ref):
        return None
    found = element(node.value, own_places(node.value.shape))
    return cast(found, node.dtype) if found is not None else None
