"""Movement that copies in PyTorch: joining, turning, repeating and reordering, as readings at other places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, Literal, cast, compute_dtype, where
from backends.compiler.indexed import PLACE, Local, every, length, measure, modulo, named, over, plus, times
from backends.compiler.ir import Extern, Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.operand import number

MOST = 16
"""Tensors that one kernel joins: each costs a masked load."""


def needs_elements(builder: Builder, *operands: Value) -> None:
    """Decline what would read a tensor of no elements."""
    assert builder.result is not None
    if 0 in builder.result.hints or any(0 in operand.hints for operand in operands):
        raise Declined("movement of an empty tensor")


def places(builder: Builder) -> list[Expr]:
    """The coordinates of the result."""
    assert builder.result is not None
    return [builder.place(dim) for dim in range(len(builder.result.shape))]


def lengths(x: Value) -> list[Expr]:
    """The lengths of a tensor."""
    return [length(x, dim) for dim in range(len(x.shape))]


@rule("cat.default", "concat.default", "concatenate.default")
def cat(builder: Builder, tensors: Sequence[Value], dim: int) -> Value:
    needs_elements(builder, *tensors)
    if len({len(x.shape) for x in tensors}) != 1:
        raise Declined("an empty tensor among others")
    dim %= len(tensors[0].shape)
    made = _cat(builder, _with_joined(builder, tensors, dim), dim)
    builder.joined[dim, tuple(tensors)] = made
    return made


def _with_joined(builder: Builder, tensors: Sequence[Value], dim: int) -> Sequence[Value]:
    """Take what an earlier call joined for the first of these, as a dense block joins one more each time."""
    if len({x.dtype for x in tensors}) == 1:
        for count in range(len(tensors) - 1, 1, -1):
            known = builder.joined.get((dim, tuple(tensors[:count])))
            if known is not None and _is_as_made(builder, known):
                return [known, *tensors[count:]]
    return tensors


def _is_as_made(builder: Builder, x: Value) -> bool:
    """Tell whether a tensor is still computed, and nothing that writes in place has come since."""
    if x.op not in builder.ops:
        return False
    since = builder.ops[builder.ops.index(x.op) :]
    return not any(isinstance(op, Extern) and op.is_barrier for op in since)


def _cat(builder: Builder, tensors: Sequence[Value], dim: int) -> Value:
    if len(tensors) > MOST:
        raise Declined(f"more than {MOST} tensors")
    place, shown = builder.place(dim), compute_dtype(builder.dtype)
    ends = [_total(tensors[: count + 1], dim) for count in range(len(tensors))]
    found: Expr | None = None
    for index in range(len(tensors) - 1, -1, -1):
        x = tensors[index]
        after = [place >= ends[index - 1]] if index else []
        before = [place < ends[index]] if index < len(tensors) - 1 else []
        own = places(builder)
        own[dim] = Literal(PLACE, 0) if x.shape[dim].hint == 1 else place - ends[index - 1] if index else place
        element = cast(builder.read(x, own, every([*after, *before])), shown)
        found = element if found is None else where(place < ends[index], element, found)
    assert found is not None
    extents = lengths(tensors[0])
    extents[dim] = ends[-1]
    return builder.mapped("cat", found, extents)


def _total(tensors: Sequence[Value], dim: int) -> Expr:
    """Where the last of these tensors ends."""
    if len(tensors) == 1 and tensors[0].shape[dim].hint != 1:
        return length(tensors[0], dim)
    text = " + ".join(f"{{{index}}}" for index in range(len(tensors)))
    number = sum(x.shape[dim].hint for x in tensors)
    if all(x.shape[dim].hint == 1 for x in tensors):
        return Literal(PLACE, number)
    return measure(text, number, f"end_{len(tensors)}", *((x, dim) for x in tensors))


@rule("stack.default")
def stack(builder: Builder, tensors: Sequence[Value], dim: int) -> Value:
    dim %= len(tensors[0].shape) + 1
    return cat(builder, [builder.unsqueeze(x, dim) for x in tensors], dim)


@rule("flip.default", "fliplr.default", "flipud.default")
def flip(builder: Builder, self: Value, dims: Any = None) -> Value:
    needs_elements(builder, self)
    if dims is None:
        raise Declined("")
    own = places(builder)
    for dim in {d % len(own) for d in dims} if own else ():
        if self.shape[dim].hint != 1:
            own[dim] = length(self, dim) - 1 - own[dim]
    return builder.mapped("flip", builder.read(self, own), lengths(self))


@rule("roll.default")
def roll(builder: Builder, self: Value, shifts: Any, dims: Any) -> Value:
    needs_elements(builder, self)
    if not dims or len(dims) != len(shifts) or len({d % len(self.shape) for d in dims}) != len(dims):
        raise Declined("a roll of the flattened tensor")
    own = places(builder)
    for dim, shift in ((d % len(own), number(builder, s)) for d, s in zip(dims, shifts, strict=True)):
        if self.shape[dim].hint == 1:
            continue
        back = measure(f"{-shift} % {{0}}", -shift % self.shape[dim].hint, "shift", (self, dim))
        own[dim] = Local(PLACE, named("from", len(own) - dim), modulo(own[dim] + back, length(self, dim)))
    return builder.mapped("roll", builder.read(self, own), lengths(self))


@rule("repeat.default", "tile.default")
def repeat(builder: Builder, self: Value, repeats: Any = None, dims: Any = None) -> Value:
    needs_elements(builder, self)
    given = [number(builder, count) for count in (repeats if repeats is not None else dims)]
    rank = len(self.shape)
    counts = [1] * (rank - len(given)) + given
    lead, own, extents = len(counts) - rank, places(builder), list[Expr]()
    for dim, count in enumerate(counts):
        if dim < lead or self.shape[dim - lead].hint == 1:
            extents.append(Literal(PLACE, count))
            own[dim] = Literal(PLACE, 0)
            continue
        own[dim] = modulo(own[dim], length(self, dim - lead)) if count != 1 else own[dim]
        extents.append(_scaled(self, dim - lead, count))
    return builder.mapped("repeat", builder.read(self, own[lead:]), extents)


def _scaled(x: Value, dim: int, count: int) -> Expr:
    if count == 1 or x.shape[dim].hint == 1:
        return length(x, dim) if count == 1 else Literal(PLACE, count)
    return measure(f"{{0}} * {count}", x.shape[dim].hint * count, "", (x, dim))


@rule("repeat_interleave.self_int")
def repeat_interleave(builder: Builder, self: Value, repeats: Any, dim: Any, output_size: Any = None) -> Value:
    needs_elements(builder, self)
    if dim is None:
        raise Declined("repeat_interleave of the flattened tensor")
    count, dim = number(builder, repeats), dim % len(self.shape)
    own, extents = places(builder), lengths(self)
    own[dim] = over(own[dim], count) if self.shape[dim].hint != 1 else Literal(PLACE, 0)
    extents[dim] = _scaled(self, dim, count)
    return builder.mapped("repeat_interleave", builder.read(self, own), extents)


@rule("pixel_shuffle.default")
def pixel_shuffle(builder: Builder, self: Value, upscale_factor: Any) -> Value:
    """Channels become the places between pixels: out[c, h r + i, w r + j] = in[(c r + i) r + j, h, w]."""
    needs_elements(builder, self)
    r, rank = number(builder, upscale_factor), len(self.shape)
    *lead, channel, row, column = places(builder)
    source = plus(times(plus(times(channel, r), modulo(row, r)), r), modulo(column, r))
    own = [*lead, Local(PLACE, "from_channel", source), over(row, r), over(column, r)]
    extents = lengths(self)
    extents[-3] = measure(f"{{0}} // {r * r}", self.shape[-3].hint // (r * r), "", (self, rank - 3))
    extents[-2], extents[-1] = _scaled(self, rank - 2, r), _scaled(self, rank - 1, r)
    return builder.mapped("pixel_shuffle", builder.read(self, _single(self, own)), extents)


@rule("pixel_unshuffle.default")
def pixel_unshuffle(builder: Builder, self: Value, downscale_factor: Any) -> Value:
    """The places between pixels become channels: out[(c r + i) r + j, h, w] = in[c, h r + i, w r + j]."""
    needs_elements(builder, self)
    r, rank = number(builder, downscale_factor), len(self.shape)
    *lead, channel, row, column = places(builder)
    own = [
        *lead,
        over(channel, r * r),
        plus(times(row, r), modulo(over(channel, r), r)),
        plus(times(column, r), modulo(channel, r)),
    ]
    extents = lengths(self)
    extents[-3] = _scaled(self, rank - 3, r * r)
    for dim in (rank - 2, rank - 1):
        extents[dim] = measure(f"{{0}} // {r}", self.shape[dim].hint // r, "", (self, dim))
    return builder.mapped("pixel_unshuffle", builder.read(self, _single(self, own)), extents)


@rule("channel_shuffle.default")
def channel_shuffle(builder: Builder, self: Value, groups: Any) -> Value:
    needs_elements(builder, self)
    g, own = number(builder, groups), places(builder)
    share = measure(f"{{0}} // {g}", self.shape[1].hint // g, "group_channels", (self, 1))
    own[1] = Local(PLACE, "from_channel", plus(times(modulo(own[1], g), share), over(own[1], g)))
    return builder.mapped("channel_shuffle", builder.read(self, _single(self, own)), lengths(self))


def _single(x: Value, own: Sequence[Expr]) -> list[Expr]:
    """Where a dimension has one place, that is it."""
    return [Literal(PLACE, 0) if size.hint == 1 else place for size, place in zip(x.shape, own, strict=True)]
