"""Seeing through views: compute in the shape a kernel already has, and view the result instead.

pointwise(view(a), b) = view(pointwise(a, unview(b))) where `view` only splits, merges, adds or drops
dimensions. So a mean whose dimension was dropped, or a group norm's split channels, stays in one kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from backends.compiler.expression import Expr, Index, Ref, replace, walk
from backends.compiler.ir import Extern, Value, View

if TYPE_CHECKING:
    from backends.compiler.build import Builder

Restore = Callable[[Value], Value]


def undo(source: Value, kind: str, dim: int) -> Value | None:
    """Return what `source` was before a view of this kind at this dimension, if it is one."""
    op = source.op
    return op.source if isinstance(op, View) and op.kind == kind and op.dim == dim else None


def hoist(builder: Builder, tree: Expr) -> tuple[Expr, Restore]:
    """Rewrite a tree to read what is behind its operands' views; `Restore` puts the view onto the result."""
    steps: list[Restore] = []
    while True:
        found = _next_step(builder, tree)
        if found is None:
            break
        tree, step = found
        if step is not None:
            steps.append(step)

    def restore(value: Value) -> Value:
        for step in reversed(steps):
            value = step(value)
        return value

    return tree, restore


def _operands(tree: Expr) -> list[Value]:
    return list(dict.fromkeys(node.value for node in walk(tree) if isinstance(node, Ref)))


def _next_step(builder: Builder, tree: Expr) -> tuple[Expr, Restore | None] | None:
    operands = _operands(tree)
    if any(isinstance(node, Index) for node in walk(tree)):
        return None
    views = [(operand, operand.op) for operand in operands if isinstance(operand.op, View)]
    for operand, op in views:
        others = [other for other in operands if other is not operand]
        if op.kind == "expand" and _covers(operand, others):
            return replace(tree, operand, op.source), None
        if op.kind == "squeeze" and op.dim == 0 and any(len(other.shape) > len(operand.shape) for other in others):
            return replace(tree, operand, op.source), None  # broadcasting puts the leading 1 back
    for operand, op in views:
        others = [other for other in operands if other is not operand]
        if op.source.op is None or isinstance(op.source.op, Extern):
            continue  # a view of an argument or of PyTorch's result costs nothing where it is
        if op.kind in _STEPS and (step := _STEPS[op.kind](builder, op, operand, others)):
            unview, restore = step
            seen = tree
            for other in others:
                seen = replace(seen, other, unview(other))
            seen = replace(seen, operand, op.source)
            if _views(seen) < _views(tree):  # else two views would be traded for each other for ever
                return seen, restore
    return None


def _views(tree: Expr) -> int:
    """Count the operands that are views of something computed here."""
    return sum(isinstance(operand.op, View) and operand.op.source.op is not None for operand in _operands(tree))


def _covers(operand: Value, others: list[Value]) -> bool:
    """True if the other operands alone give every dimension its size."""
    rank = len(operand.shape)
    for index, size in enumerate(operand.shape):
        from_end = rank - index
        if size.hint != 1 and not any(
            len(other.shape) >= from_end and other.shape[-from_end].hint == size.hint for other in others
        ):
            return False
    return True


Step = tuple[Callable[[Value], Value], Restore]


def _squeeze(builder: Builder, op: View, operand: Value, others: list[Value]) -> Step | None:
    from_end = len(operand.shape) - op.dim  # dimensions right of the dropped one
    if any(len(other.shape) > len(operand.shape) for other in others):
        return None

    def unview(other: Value) -> Value:
        dim = len(other.shape) - from_end
        return builder.unsqueeze(other, dim) if dim > 0 else other  # broadcasting adds leading 1s itself

    return unview, lambda value: builder.squeeze(value, [len(value.shape) - 1 - from_end])


def _unsqueeze(builder: Builder, op: View, operand: Value, others: list[Value]) -> Step | None:
    from_end = len(operand.shape) - op.dim
    for other in others:
        if len(other.shape) > len(operand.shape):
            return None
        if len(other.shape) >= from_end and other.shape[-from_end].hint != 1:
            return None

    def unview(other: Value) -> Value:
        return builder.squeeze(other, [len(other.shape) - from_end]) if len(other.shape) >= from_end else other

    return unview, lambda value: builder.unsqueeze(value, len(value.shape) + 1 - from_end)


def _flatten(builder: Builder, op: View, operand: Value, others: list[Value]) -> Step | None:
    source = op.source
    merged = len(source.shape) - len(operand.shape) + 1
    sizes = source.shape[op.dim : op.dim + merged]
    from_end = len(operand.shape) - op.dim
    if any(len(other.shape) > len(operand.shape) for other in others):
        return None
    text = _split_text(source, sizes)
    if text is None:
        return None
    if any(
        len(other.shape) >= from_end and other.shape[-from_end].hint not in (1, operand.shape[op.dim].hint)
        for other in others
    ):
        return None

    def unview(other: Value) -> Value:
        dim = len(other.shape) - from_end
        if dim < 0:
            return other
        if other.shape[dim].hint == 1 and operand.shape[op.dim].hint != 1:
            for _ in range(merged - 1):
                other = builder.unsqueeze(other, dim)
            return other
        return builder.unflatten(other, dim, sizes, text)

    def restore(value: Value) -> Value:
        start = len(value.shape) - (from_end - 1) - merged
        return builder.flatten(value, start, start + merged - 1, operand.shape[op.dim])

    return unview, restore


def _split_text(source: Value, sizes: tuple[object, ...]) -> str | None:
    """How the host wrote the split that `source`'s dimensions come from."""
    op = source.op
    while op is not None:
        if isinstance(op, View) and op.kind == "unflatten":
            return op.text.split(", ", 1)[1].removesuffix(")")
        readers = [value for value in op.inputs if len(value.shape) == len(source.shape)]
        if not readers:
            return None
        op = readers[0].op
    return None


_STEPS = {"squeeze": _squeeze, "unsqueeze": _unsqueeze, "flatten": _flatten}
