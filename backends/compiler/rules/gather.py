"""Places that other numbers name: the kernel reads them, and refuses one that does not exist, as PyTorch does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, Literal, cast, where
from backends.compiler.indexed import PLACE, Local, every, length
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.movement import lengths, places

WHOLE = (torch.int64, torch.int32)


def _named_place(builder: Builder, index: Value, own: Sequence[Expr], wish: str = "place") -> Expr:
    """Read the place that an index tensor names."""
    if index.dtype not in WHOLE:
        raise Declined(f"an index of {index.dtype}")
    return Local(PLACE, wish, cast(builder.read(index, own), PLACE))


def _exists(place: Expr, size: Expr) -> Expr:
    return (place >= 0) & (place < size)


def _checked(builder: Builder, *operands: Value) -> None:
    assert builder.result is not None
    if any(0 in operand.hints for operand in (builder.result, *operands)):
        raise Declined("an empty tensor")


@rule("embedding.default")
def embedding(
    builder: Builder,
    weight: Value,
    indices: Value,
    padding_idx: Any = None,
    scale_grad_by_freq: Any = None,
    sparse: Any = None,
) -> Value:
    """Rows of a table; the other arguments only matter to gradients."""
    _checked(builder, weight, indices)
    own = places(builder)
    token = _named_place(builder, indices, own[:-1], "token")
    row = builder.read(weight, [token, own[-1]], _exists(token, length(weight, 0)), is_checked=True)
    return builder.mapped("embedding", row, [*lengths(indices), length(weight, 1)])


@rule("index_select.default")
def index_select(builder: Builder, self: Value, dim: int, index: Value) -> Value:
    _checked(builder, self, index)
    if not self.shape or len(index.shape) != 1:
        raise Declined("index_select of a single number")
    dim %= len(self.shape)
    own, extents = places(builder), lengths(self)
    own[dim] = _named_place(builder, index, [own[dim]])
    extents[dim] = length(index, 0)
    element = builder.read(self, own, _exists(own[dim], length(self, dim)), is_checked=True)
    return builder.mapped("index_select", element, extents)


@rule("gather.default")
def gather(builder: Builder, self: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    _checked(builder, self, index)
    if not self.shape or not index.shape:
        raise Declined("gather of a single number")
    dim %= len(self.shape)
    own = places(builder)
    at = list(own)
    at[dim] = _named_place(builder, index, own)
    conditions = [_exists(at[dim], length(self, dim))]
    for other, (size, wanted) in enumerate(zip(self.shape, index.shape, strict=True)):
        if other != dim and size != wanted:
            conditions.append(own[other] < length(self, other))
    element = builder.read(self, at, every(conditions), is_checked=True)
    return builder.mapped("gather", element, lengths(index))


@rule("index.Tensor")
def index_(builder: Builder, self: Value, indices: Sequence[Value | None]) -> Value:
    """Indexing by tensors: they broadcast together, and stand where they stood if they are neighbours, else first."""
    given = {dim: index for dim, index in enumerate(indices) if index is not None}
    _checked(builder, self, *given.values())
    if not given:
        return self
    rank = max(len(index.shape) for index in given.values())
    dims = sorted(given)
    first = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
    own = places(builder)
    lead, rest = own[first : first + rank], iter([*own[:first], *own[first + rank :]])
    at, conditions = list[Expr](), list[Expr]()
    for dim in range(len(self.shape)):
        index = given.get(dim)
        if index is None:
            at.append(next(rest))
            continue
        named = _named_place(builder, index, _broadcast(index, lead))
        size = length(self, dim)
        place = Local(PLACE, "from_start", where(named < 0, named + size, named))
        at.append(place)
        conditions.append(_exists(place, size))
    element = builder.read(self, at, every(conditions), is_checked=True)
    return builder.mapped("index", element, _extents(self, given, first, rank))


def _broadcast(index: Value, lead: Sequence[Expr]) -> list[Expr]:
    own = lead[len(lead) - len(index.shape) :]
    return [Literal(PLACE, 0) if size.hint == 1 else place for size, place in zip(index.shape, own, strict=True)]


def _extents(x: Value, given: dict[int, Value], first: int, rank: int) -> list[Expr]:
    together: list[Expr] = [Literal(PLACE, 1)] * rank
    for index in given.values():
        for dim, size in enumerate(index.shape):
            if size.hint != 1:
                together[rank - len(index.shape) + dim] = length(index, dim)
    kept = [length(x, dim) for dim in range(len(x.shape)) if dim not in given]
    return [*kept[:first], *together, *kept[first:]]
