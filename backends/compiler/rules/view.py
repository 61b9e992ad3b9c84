"""Movement: the same numbers at other indices. Views cost nothing and are made on the host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from backends.compiler import through, viewmaps
from backends.compiler.build import Builder
from backends.compiler.expression import Expr, Literal, Scalar
from backends.compiler.indexed import PLACE, Map, length, measure
from backends.compiler.ir import Size, Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.cast import KEEPS_ORDER


def size_text(size: Any) -> str:
    """Write one size of a view's arguments."""
    return size.host if isinstance(size, Scalar) else str(size)


def sizes_text(sizes: Any) -> str:
    """Write sizes as arguments; no sizes at all as the empty tuple."""
    return ", ".join(size_text(size) for size in sizes) or "()"


IN_ORDER, STRIDED = 4, 16
"""Rounds of a loop from which on each takes its part by a view: along the first dimension, and along another, where a
kernel may copy the view. Read where it lies, a part would have a kernel of its own in every round."""


def _moved(
    builder: Builder, self: Value, text: str, label: str, *, dense: bool = False, map: Map | None = None
) -> Value:
    assert builder.result is not None
    return builder.view(self, builder.result.shape, "{0}" + text, label=label, dense=dense, map=map)


@rule("view.default", "_unsafe_view.default", "reshape.default")
def view(builder: Builder, self: Value, size: Any = None, shape: Any = None) -> Value:
    sizes = size if size is not None else shape
    assert builder.result is not None
    if builder.result.hints == self.hints and builder.result.shape == self.shape:
        return self
    if (found := _split_or_merged(builder, self, sizes)) is not None:
        return found
    if through.moves(self):  # a copy first, in the order of the view
        self = builder.pointwise("reshape", builder.element(self, self.dtype), self.dtype)
    return builder.view(self, builder.result.shape, f"{{0}}.reshape({_loose(sizes)})", label="view", dense=True)


def _split_or_merged(builder: Builder, x: Value, sizes: Any) -> Value | None:
    """Write a reshape as unflatten or flatten where it is one: then sizes that stay as they are need no number."""
    assert builder.result is not None
    old, new = x.shape, builder.result.shape
    if 0 in x.hints:
        return None
    shorter = min(len(old), len(new))
    lead = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    most = shorter - lead
    tail = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    before, after = len(old) - lead - tail, len(new) - lead - tail
    if before == 1 and after > 1:
        split = list(sizes)[lead : lead + after]
        return builder.unflatten(x, lead, new[lead : lead + after], f"({_loose(split)})", split)
    if after == 1 and before > 1:
        return merged(builder, x, lead, lead + before - 1, new[lead])
    return None


def merged(builder: Builder, x: Value, start: int, end: int, size: Size) -> Value:
    """Merge dimensions: a view where they lie one in the other, else a copy that a kernel makes."""
    flat = builder.flatten(x, start, end, size)
    if not through.moves(x) or through.lies_in_order(x, start, end):
        return flat
    return builder.pointwise("reshape", builder.element(flat, x.dtype), x.dtype)


def _loose(sizes: Any) -> str:
    """Write sizes, as -1 the one that holds a bare number: it may be another one when the module is built with others.

    That is the largest number, or, where names stand for all of them, a length that is computed.
    """
    texts = [size_text(size) for size in sizes]
    numbers = [(size, i) for i, size in enumerate(sizes) if isinstance(size, int) and not isinstance(size, bool)]
    computed = [i for i, text in enumerate(texts) if re.search(r"[-+*/] ?\d", text)]
    if not any(size == -1 for size, _ in numbers):
        if numbers and max(numbers)[0] > 1:
            texts[max(numbers)[1]] = "-1"
        elif computed:
            texts[computed[0]] = "-1"
    return ", ".join(texts) or "()"


@rule("flatten.using_ints")
def flatten(builder: Builder, self: Value, start_dim: int, end_dim: int) -> Value:
    rank = len(self.shape)
    if rank == 0:
        return _moved(builder, self, ".flatten()", "flatten", dense=True)
    start, end = start_dim % rank, end_dim % rank
    if start == end:
        return self
    assert builder.result is not None
    return merged(builder, self, start, end, builder.result.shape[start])


@rule("unflatten.int")
def unflatten(builder: Builder, self: Value, dim: int, sizes: Any) -> Value:
    assert builder.result is not None
    start = dim % len(self.shape)
    count = len(builder.result.shape) - len(self.shape) + 1
    text = f"({_loose(sizes)}{',' if len(sizes) == 1 else ''})"
    return builder.unflatten(self, start, builder.result.shape[start : start + count], text, sizes)


@rule("unsqueeze.default")
def unsqueeze(builder: Builder, self: Value, dim: int) -> Value:
    return builder.unsqueeze(self, dim % (len(self.shape) + 1))


@rule("squeeze.dim", "squeeze.dims", "squeeze.default")
def squeeze(builder: Builder, self: Value, dim: Any = None) -> Value:
    rank = len(self.shape)
    asked = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = [d % rank for d in asked if self.shape[d % rank].hint == 1] if rank else []
    return builder.squeeze(self, dims) if dims else self


@rule("permute.default")
def permute(builder: Builder, self: Value, dims: list[int]) -> Value:
    order = [dim % len(self.shape) for dim in dims]
    if order == sorted(order):
        return self
    return _moved(builder, self, f".permute({sizes_text(dims)})", "permute", map=viewmaps.permuted(self, order))


@rule("transpose.int", "swapaxes.default", "swapdims.default")
def transpose(
    builder: Builder,
    self: Value,
    dim0: int | None = None,
    dim1: int | None = None,
    axis0: int | None = None,
    axis1: int | None = None,
) -> Value:
    first, second = (dim0, dim1) if dim0 is not None else (axis0, axis1)
    assert first is not None and second is not None
    swapped = _swapped(self, first, second)
    return _moved(builder, self, f".transpose({first}, {second})", "transpose", map=swapped)


def _swapped(x: Value, first: int, second: int) -> Map:
    order = list(range(len(x.shape)))
    if order:
        order[first], order[second] = order[second], order[first]
    return viewmaps.permuted(x, order)


@rule("t.default", "numpy_T.default")
def t(builder: Builder, self: Value) -> Value:
    if len(self.shape) != 2:
        raise Declined("t of what is no matrix")
    return _moved(builder, self, ".t()", "t", map=_swapped(self, 0, 1))


@rule("mT.default", "matrix_H.default", "adjoint.default")
def matrix_transpose(builder: Builder, self: Value) -> Value:
    return _moved(builder, self, ".mT", "mT", map=_swapped(self, -2, -1))


@rule("expand.default", "broadcast_to.default")
def expand(builder: Builder, self: Value, size: Any, implicit: bool = False) -> Value:
    return _expanded(builder, self, [size_text(one) for one in size])


@rule("expand_as.default")
def expand_as(builder: Builder, self: Value, other: Value) -> Value:
    return _expanded(builder, self, [builder.size_text(size) for size in builder.shape])


def _expanded(builder: Builder, x: Value, sizes: Sequence[str]) -> Value:
    """Repeat what has a single place; the other lengths stay as they are, whatever they are."""
    shape = builder.shape
    lead = len(shape) - len(x.shape)
    if lead == 0 and shape == x.shape:
        return x
    texts = ["-1" if at >= lead and x.shape[at - lead].hint != 1 else text for at, text in enumerate(sizes)]
    text = f"{{0}}.expand({', '.join(texts) or '()'})"
    extents = [
        length(x, at - lead) if at >= lead and x.shape[at - lead].hint != 1 else builder.extent(size)
        for at, size in enumerate(shape)
    ]
    stretched = viewmaps.expanded(x, shape, extents)
    return builder.view(x, shape, text, "expand", label="expand", dense=False, map=stretched)


@rule("select.int")
def select(builder: Builder, self: Value, dim: int, index: Any) -> Value:
    dim %= len(self.shape)
    if builder.rounds >= (IN_ORDER if dim == 0 else STRIDED):
        return _moved(builder, self, f"[{':, ' * dim}{size_text(index)}]", "select", dense=dim == 0)
    at = _from_start(self, dim, index)
    one = viewmaps.selected(self, dim, at) if at is not None else None
    return _moved(builder, self, f".select({dim}, {size_text(index)})", "select", map=one)


def _from_start(x: Value, dim: int, index: Any) -> Expr | None:
    """The place that an index names; one that may not be there is looked up on the host, which refuses it."""
    if not isinstance(index, int):
        return None
    size = x.shape[dim]
    if index == 0 or (size.symbol is None and 0 <= index < size.hint):
        return Literal(PLACE, index)
    return measure(f"range({{0}})[{index}]", index % size.hint, "place", (x, dim)) if size.hint else None


@rule("slice.Tensor")
def slice_(builder: Builder, self: Value, dim: int, start: Any, end: Any, step: Any) -> Value:
    if isinstance(end, Scalar) and end.host == builder.size_text(self.shape[dim]):
        end = None  # written out by what takes an operator apart
    first = "" if start in (None, 0) else size_text(start)
    last = "" if end is None or (isinstance(end, int) and end >= 2**62) else size_text(end)
    stride = "" if step == 1 else f":{size_text(step)}"
    if not (first or last or stride):
        return self
    dim = dim % len(self.shape)
    part = _part(builder, self, dim, start, None if not last else end, step)
    return _moved(builder, self, f"[{':, ' * dim}{first}:{last}{stride}]", "slice", map=part)


def _part(builder: Builder, x: Value, dim: int, start: Any, end: Any, step: Any) -> Map | None:
    """Where a slice lies; None where its bounds are numbers that only the host knows."""
    begin = 0 if start is None else start
    if isinstance(end, Scalar) and isinstance(begin, int) and begin >= 0 and step == 1:
        assert builder.result is not None
        reach = builder.extent(builder.result.shape[dim])
        return viewmaps.sliced(x, builder.result.shape, dim, Literal(PLACE, begin), 1, reach)
    if any(not isinstance(bound, int) for bound in (begin, step, 0 if end is None else end)) or step < 1:
        return None
    assert builder.result is not None
    size, shape = x.shape[dim], builder.result.shape
    is_from_end = begin < 0 or end is None or end < 0  # in another build the end is elsewhere
    if size.symbol is None and shape[dim].symbol is None and not is_from_end:
        first: Expr = Literal(PLACE, range(size.hint)[begin:].start)
        return viewmaps.sliced(x, shape, dim, first, step, Literal(PLACE, shape[dim].hint))
    text = f"{begin or ''}:{'' if end is None else end}{f':{step}' if step != 1 else ''}"
    extent = measure(f"len(range({{0}})[{text}])", shape[dim].hint, "", (x, dim))
    if begin > 0 and end is None and step == 1:
        extent = measure(f"max({{0}} - {begin}, 0)", shape[dim].hint, "", (x, dim))
    if begin == 0 and end is not None and end > 0 and step == 1:
        extent = measure(f"min({{0}}, {end})", shape[dim].hint, "", (x, dim))
    first = Literal(PLACE, begin) if begin >= 0 else measure(f"max({{0}} - {-begin}, 0)", 0, "start", (x, dim))
    return viewmaps.sliced(x, shape, dim, first, step, extent)


@rule("contiguous.default")
def contiguous(builder: Builder, self: Value, memory_format: Any = None) -> Value:
    """What comes next reads the places where they are; a copy is only needed where one is written to later."""
    if memory_format not in (0, *KEEPS_ORDER) or builder.program_writes_in_place:  # 0 is contiguous_format
        raise Declined("")
    return self


@rule(
    "positive.default",
    "resolve_conj.default",
    "resolve_neg.default",
    "detach.default",
    "alias.default",
    "lift_fresh_copy.default",
    "detach_.default",
)
def same(builder: Builder, self: Value) -> Value:
    return self


@rule("clone.default")
def clone(builder: Builder, self: Value) -> Value:
    """A copy is only needed where something is written in place later."""
    if not builder.program_writes_in_place:
        return self
    return builder.pointwise("clone", builder.element(self, self.dtype))
