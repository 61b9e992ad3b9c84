"""Parts of a tensor: pieces along a dimension, diagonals, overlapping windows. All are views."""

from __future__ import annotations

from typing import Any

from backends.compiler import viewmaps
from backends.compiler.build import Builder
from backends.compiler.expression import Expr, Literal
from backends.compiler.indexed import PLACE, Map, length, measure, plus, times
from backends.compiler.ir import Shape, Size, Value, View
from backends.compiler.rules import Declined, rule

NAMED = 4
"""Pieces that forward gives names to; of more, each is made where it is read."""


def _piece(builder: Builder, x: Value, dim: int, size: Size, start: Expr, extent: Expr, text: str, label: str) -> Value:
    shape = (*x.shape[:dim], size, *x.shape[dim + 1 :])
    part = viewmaps.sliced(x, shape, dim, start, 1, extent)
    return builder.view(x, shape, f"{{0}}{text}", label=label, dense=False, map=part)


@rule("chunk.default", "unsafe_chunk.default")
def chunk(builder: Builder, self: Value, chunks: Any, dim: int) -> list[Value]:
    dim %= len(self.shape)
    shapes, pieces = _shapes(builder), []
    if chunks > 2:  # two there are of any length but 1, whose second one is empty
        builder.expect_pieces(self, dim, f"-(-{{0}} // max(-(-{{0}} // {chunks}), 1))")
    share = measure(f"-(-{{0}} // {chunks})", -(-self.shape[dim].hint // chunks), "share", (self, dim))
    for index, shape in enumerate(shapes):
        start: Expr = Literal(PLACE, 0)
        if index:
            start = measure(f"{index} * -(-{{0}} // {chunks})", index * int(share.number), "start", (self, dim))
        left = f"{{0}} - {index} * -(-{{0}} // {chunks})"
        extent = measure(left, shape[dim].hint, "", (self, dim)) if index == len(shapes) - 1 else share
        text = f".chunk({chunks}, {dim})[{index}]"
        pieces.append(_piece(builder, self, dim, shape[dim], start, extent, text, "chunk"))
    return _together(pieces, f"{{0}}.chunk({chunks}, {dim})")


@rule("split.Tensor", "unsafe_split.Tensor")
def split(builder: Builder, self: Value, split_size: Any, dim: int) -> list[Value]:
    if not isinstance(split_size, int):
        raise Declined("")
    builder.expect_pieces(self, dim % len(self.shape), f"-(-{{0}} // {split_size})")
    return _split(builder, self, [split_size] * len(_shapes(builder)), dim, f".split({split_size}, {dim})")


@rule("split_with_sizes.default", "split.sizes")
def split_with_sizes(
    builder: Builder, self: Value, split_sizes: Any = None, dim: int = 0, split_size: Any = None
) -> list[Value]:
    sizes = split_sizes if split_sizes is not None else split_size
    if not all(isinstance(size, int) for size in sizes):
        raise Declined("")
    builder.expect_length(self, dim % len(self.shape))
    return _split(builder, self, list(sizes), dim, f".split({list(sizes)}, {dim})")


def _split(builder: Builder, x: Value, sizes: list[int], dim: int, text: str) -> list[Value]:
    dim %= len(x.shape)
    pieces, start = [], 0
    for index, (shape, size) in enumerate(zip(_shapes(builder), sizes, strict=True)):
        extent = measure(f"len(range({{0}})[{start or ''}:{start + size}])", shape[dim].hint, "", (x, dim))
        at = Literal(PLACE, start)
        pieces.append(_piece(builder, x, dim, shape[dim], at, extent, f"{text}[{index}]", "split"))
        start += size
    return _together(pieces, f"{{0}}{text}")


def _together(pieces: list[Value], apart: str) -> list[Value]:
    """Let forward make a few pieces by one call, as a person would."""
    for piece in pieces if 1 < len(pieces) <= NAMED else ():
        assert isinstance(piece.op, View)
        piece.op.pieces, piece.op.apart = pieces, apart
    return pieces


@rule("unbind.int")
def unbind(builder: Builder, self: Value, dim: int) -> list[Value]:
    dim %= len(self.shape)
    builder.expect_pieces(self, dim, "{0}")
    pieces = [
        builder.view(
            self,
            shape,
            f"{{0}}.select({dim}, {index})",
            label="unbind",
            dense=False,
            map=viewmaps.selected(self, dim, Literal(PLACE, index)),
        )
        for index, shape in enumerate(_shapes(builder))
    ]
    return _together(pieces, f"{{0}}.unbind({dim})")


@rule("narrow.default")
def narrow(builder: Builder, self: Value, dim: int, start: Any, length: Any) -> Value:
    if not isinstance(start, int) or not isinstance(length, int) or start < 0:
        raise Declined("")
    assert builder.result is not None
    dim %= len(self.shape)
    extent = measure(f"len(range({{0}})[{start or ''}:{start + length}])", length, "", (self, dim))
    text = f".narrow({dim}, {start}, {length})"
    return _piece(builder, self, dim, builder.result.shape[dim], Literal(PLACE, start), extent, text, "narrow")


@rule("movedim.int", "movedim.intlist", "moveaxis.int", "moveaxis.intlist")
def movedim(builder: Builder, self: Value, source: Any, destination: Any) -> Value:
    assert builder.result is not None
    rank = len(self.shape)
    one, other = ([dims] if isinstance(dims, int) else list(dims) for dims in (source, destination))
    target = {d % rank: s % rank for s, d in zip(one, other, strict=True)}
    rest = iter(dim for dim in range(rank) if dim not in target.values())
    order = [target[dim] if dim in target else next(rest) for dim in range(rank)]
    text = f"{{0}}.permute({', '.join(map(str, order))})"
    moved = viewmaps.permuted(self, order)
    return builder.view(self, builder.result.shape, text, label="movedim", dense=False, map=moved)


@rule("diagonal.default")
def diagonal(builder: Builder, self: Value, offset: int, dim1: int, dim2: int) -> Value:
    assert builder.result is not None
    shape, rank = builder.result.shape, len(self.shape)
    first, second = dim1 % rank, dim2 % rank
    place = viewmaps.coordinate(shape, len(shape) - 1)
    kept = iter(viewmaps.coordinate(shape, dim) for dim in range(len(shape) - 1))
    indices = [
        plus(place, max(-offset, 0)) if dim == first else plus(place, max(offset, 0)) if dim == second else next(kept)
        for dim in range(rank)
    ]
    text = f"min({{0}} - {max(-offset, 0)}, {{1}} - {max(offset, 0)})" if offset else "min({0}, {1})"
    along = measure(text, shape[-1].hint, "", (self, first), (self, second))
    extents = [length(self, dim) for dim in range(rank) if dim not in (first, second)]
    return builder.view(
        self,
        shape,
        f"{{0}}.diagonal({offset}, {dim1}, {dim2})",
        label="diagonal",
        dense=False,
        map=Map(tuple(indices), (*extents, along), moves=True) if 0 not in self.hints and self.hints else None,
    )


@rule("unfold.default")
def unfold(builder: Builder, self: Value, dimension: int, size: Any, step: Any) -> Value:
    if not self.shape or not isinstance(size, int) or not isinstance(step, int):
        raise Declined("")
    assert builder.result is not None
    shape, dim = builder.result.shape, dimension % len(self.shape)
    indices = [viewmaps.coordinate(shape, at) for at in range(len(self.shape))]
    indices[dim] = plus(times(indices[dim], step), viewmaps.coordinate(shape, len(shape) - 1))
    extents = [length(self, at) for at in range(len(self.shape))]
    extents[dim] = measure(f"({{0}} - {size}) // {step} + 1", shape[dim].hint, "", (self, dim))
    return builder.view(
        self,
        shape,
        f"{{0}}.unfold({dimension}, {size}, {step})",
        label="unfold",
        dense=False,
        map=Map(tuple(indices), (*extents, Literal(PLACE, size)), moves=True),
    )


def _shapes(builder: Builder) -> list[Shape]:
    return [piece.shape for piece in builder.results]
