"""Writing at places that other numbers name, told from the place that is written: it looks for what names it.

So each element of the result has one writer, in a fixed order, and of several that name one place the last stands.
That costs a pass over the index for each element: sums of long indices are atomic additions, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from backends.compiler import through
from backends.compiler.build import Builder
from backends.compiler.expression import Expr, Literal, as_expr, cast, compute_dtype, equal, where
from backends.compiler.indexed import PLACE, Checked, Fold, Local, Tap, every, length, measure, plus
from backends.compiler.ir import Value, View
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.movement import lengths, needs_elements, places

LONGEST = 64
"""Places of an index that each element of the result looks through."""


class _Index:
    """An index tensor along one dimension, met by an element of the result."""

    def __init__(self, builder: Builder, x: Value, dim: int, index: Value, *, wraps: bool = False) -> None:
        needs_elements(builder, index)
        if not x.shape or not index.shape or index.dtype not in (torch.int64, torch.int32):
            raise Declined(f"an index of {index.dtype} or for a single number")
        self.builder, self.dim = builder, dim % len(x.shape)
        is_list = len(index.shape) == 1 and len(x.shape) > 1
        along = 0 if is_list else self.dim
        if index.shape[along].hint > LONGEST:
            raise Declined(f"an index of more than {LONGEST} places, each to be looked for")
        is_single = index.shape[along].hint == 1
        self.tap: Expr = Literal(PLACE, 0) if is_single else Tap(PLACE, "k", _count(index, along))
        self.taps = () if isinstance(self.tap, Literal) else (self.tap,)
        own = places(builder)
        at = [self.tap] if is_list else [*own[: self.dim], self.tap, *own[self.dim + 1 :]]
        self.conditions = (
            []
            if is_list
            else [
                own[other] < length(index, other)
                for other in range(len(x.shape))
                if other != self.dim and index.shape[other] != x.shape[other]
            ]
        )
        named, size = cast(builder.read(index, at, every(self.conditions)), PLACE), length(x, self.dim)
        self.claims: list[tuple[Expr, Expr]] = []
        self._lengths = [length(index, along)] if is_list else lengths(index)
        self._sizes = [index.shape[along]] if is_list else list(index.shape)
        place = Local(PLACE, "target", where(named < 0, named + size, named) if wraps else named)
        found = Checked(PLACE, place, (place >= 0) & (place < size))
        self.hits = every([equal(found, own[self.dim]), *self.conditions])

    def source(self, src: Value) -> Expr:
        """Read what is written by the place of the index at hand; the file is held to an index as long."""
        own, dims = places(self.builder), [self.dim] if len(self._sizes) == 1 else range(len(src.shape))
        for size, wanted, dim in zip(self._sizes, self._lengths, dims, strict=True):
            if src.shape[dim].hint != size.hint:
                raise Declined("a source that is longer than the index")
            if size.hint != 1:
                self.claims.append((wanted, length(src, dim)))
        return cast(
            self.builder.read(src, [*own[: self.dim], self.tap, *own[self.dim + 1 :]], every(self.conditions)),
            compute_dtype(self.builder.dtype),
        )

    def last(self, before: Expr, element: Expr) -> Expr:
        """The last element that names the place at hand, or what was there before."""
        assert self.hits is not None
        if not self.taps:
            return where(self.hits, element, before)
        return Fold(before.dtype, "last", self.taps, element, "kept", (before, self.hits))

    def total(self, element: Expr) -> Expr:
        """The sum of the elements that name the place at hand."""
        assert self.hits is not None
        chosen = where(self.hits, element, as_expr(0, element.dtype))
        return Fold(element.dtype, "sum", self.taps, chosen, "added") if self.taps else chosen


def _count(index: Value, dim: int) -> Expr:
    """How many places to look through, over the tensor behind a view: a loop has one count wherever it is read."""
    try:
        source, _ = through.mapped(index, [Literal(PLACE, 0)] * len(index.shape))
        return through.rooted(length(index, dim, "n_places"), (source,))
    except through.Unwritten:
        raise Declined("a length that only forward knows") from None


def _written(builder: Builder, label: str, x: Value, found: _Index | None, make: Callable[[Expr], Expr]) -> Value:
    """Compute every element of a tensor from what was there before."""
    needs_elements(builder, x)
    if builder.dtype != x.dtype:
        raise Declined("another dtype than the tensor's")
    before = cast(builder.read(x, places(builder)), compute_dtype(builder.dtype))
    made = make(before)
    return builder.mapped(label, made, lengths(x), claims=found.claims if found else ())


@rule("scatter.src", "scatter_.src")
def scatter(builder: Builder, self: Value, dim: int, index: Value, src: Value) -> Value:
    needs_elements(builder, src)
    found = _Index(builder, self, dim, index)
    return _written(builder, "scatter", self, found, lambda before: found.last(before, found.source(src)))


@rule("scatter.value", "scatter_.value")
def scatter_value(builder: Builder, self: Value, dim: int, index: Value, value: Any) -> Value:
    found = _Index(builder, self, dim, index)
    element = builder.element(value, builder.dtype)
    return _written(builder, "scatter", self, found, lambda before: found.last(before, element))


@rule("scatter_add.default", "scatter_add_.default")
def scatter_add(builder: Builder, self: Value, dim: int, index: Value, src: Value) -> Value:
    _needs_numbers(builder)
    needs_elements(builder, src)
    if _is_long(self, dim, index):
        return _atomic(builder, "scatter_add", self, dim, index, src)
    found = _Index(builder, self, dim, index)
    return _written(builder, "scatter_add", self, found, lambda before: before + found.total(found.source(src)))


@rule("scatter_reduce.two", "scatter_reduce_.two")
def scatter_reduce(
    builder: Builder, self: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool = True
) -> Value:
    if reduce != "sum" or not include_self:
        raise Declined(f"scatter_reduce by {reduce}" + ("" if include_self else " without what was there before"))
    return scatter_add(builder, self, dim, index, src)


@rule("index_add.default", "index_add_.default")
def index_add(builder: Builder, self: Value, dim: int, index: Value, source: Value, alpha: Any = 1) -> Value:
    _needs_numbers(builder)
    if self.shape and _is_long(self, dim, index):
        element = builder.element(source, builder.dtype)
        scaled = builder.pointwise("_scaled", element * builder.element(alpha, builder.dtype)) if alpha != 1 else source
        return _atomic(builder, "index_add", self, dim, index, scaled)
    found = _listed(builder, self, dim, index, source)
    factor = builder.element(alpha, builder.dtype)

    def added(before: Expr) -> Expr:
        element = found.source(source)
        return before + found.total(element if alpha == 1 else element * factor)

    return _written(builder, "index_add", self, found, added)


@rule("index_copy.default", "index_copy_.default")
def index_copy(builder: Builder, self: Value, dim: int, index: Value, source: Value) -> Value:
    found = _listed(builder, self, dim, index, source)
    return _written(builder, "index_copy", self, found, lambda before: found.last(before, found.source(source)))


@rule("index_fill.int_Scalar", "index_fill_.int_Scalar", "index_fill.int_Tensor", "index_fill_.int_Tensor")
def index_fill(builder: Builder, self: Value, dim: int, index: Value, value: Any) -> Value:
    if len(index.shape) != 1 or isinstance(value, Value):
        raise Declined("a filling by a tensor, or by a single number's place")
    found = _Index(builder, self, dim, index, wraps=True)
    element = builder.element(value, builder.dtype)
    return _written(builder, "index_fill", self, found, lambda before: found.last(before, element))


@rule("index_put.default", "index_put_.default")
def index_put(
    builder: Builder, self: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False
) -> Value:
    """Write where a mask is true, or at the places along one dimension that a list names."""
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    needs_elements(builder, values)
    if len(given) != 1 or values.dtype != self.dtype:
        raise Declined("several indices")
    if accumulate:
        return _atomic(builder, "index_put", self, given[0][0], given[0][1], values, wraps=True)
    (dim, index), is_one = given[0], all(size.hint == 1 for size in values.shape)
    if index.dtype == torch.bool:
        return _masked(builder, self, dim, index, values, is_one=is_one)
    if len(index.shape) != 1:
        raise Declined("an index of several dimensions")
    found, rank = _Index(builder, self, dim, index, wraps=True), len(self.shape)
    own = places(builder)
    lead = rank - len(values.shape)
    at = [*own[:dim], found.tap, *own[dim + 1 :]][lead:]
    if lead < 0 or any(
        size.hint != 1 and size != (index.shape[0] if lead + at_dim == dim else self.shape[lead + at_dim])
        for at_dim, size in enumerate(values.shape)
    ):
        raise Declined("values of another shape")
    at = [Literal(PLACE, 0) if size.hint == 1 else place for size, place in zip(values.shape, at, strict=True)]
    element = cast(builder.read(values, at), compute_dtype(builder.dtype))
    return _written(builder, "index_put", self, found, lambda before: found.last(before, element))


def _masked(builder: Builder, x: Value, dim: int, mask: Value, values: Value, *, is_one: bool) -> Value:
    if not is_one or dim or mask.shape != x.shape[: len(mask.shape)]:
        raise Declined("values chosen by a mask, one after the other")
    own = places(builder)
    is_chosen = builder.read(mask, own[: len(mask.shape)])
    element = cast(builder.read(values, [Literal(PLACE, 0)] * len(values.shape)), compute_dtype(builder.dtype))
    return _written(builder, "index_put", x, None, lambda before: where(is_chosen, element, before))


def _listed(builder: Builder, x: Value, dim: int, index: Value, source: Value) -> _Index:
    """Read an index of one dimension, whose source has the tensor's shape but for its places."""
    if len(index.shape) != 1 or len(source.shape) != len(x.shape) or source.dtype != x.dtype:
        raise Declined("a source of another shape")
    return _Index(builder, x, dim, index)


def _is_long(x: Value, dim: int, index: Value) -> bool:
    along = dim % len(x.shape) if x.shape and len(index.shape) == len(x.shape) else 0
    return bool(index.shape) and index.shape[along].hint > LONGEST


def _as_list(builder: Builder, index: Value, dim: int) -> Value:
    """Look at the list of places behind an index that repeats it along all other dimensions."""
    others = [at for at in range(len(index.shape)) if at != dim]
    source = index.op.source if isinstance(index.op, View) and index.op.kind == "expand" else index
    is_repeated = source is not index and len(source.shape) == len(index.shape) > 1
    if not is_repeated or any(source.shape[at].hint != 1 for at in others):
        return index
    return builder.squeeze(source, others)


ATOMIC = (torch.float32, torch.float64, torch.int32, torch.int64)
"""Types whose numbers a GPU adds in memory, each addition exact or rounded as PyTorch's."""


def _atomic(
    builder: Builder, label: str, x: Value, dim: int, index: Value, source: Value, *, wraps: bool = False
) -> Value:
    """Add elements where an index says, each in a lane of its own."""
    needs_elements(builder, x, index, source)
    if x.dtype not in ATOMIC or source.dtype != x.dtype or index.dtype not in (torch.int64, torch.int32):
        raise Declined(f"atomic additions of {source.dtype} to {x.dtype}, by an index of {index.dtype}")
    dim %= len(x.shape)
    index = _as_list(builder, index, dim)
    wanted = [size.hint for at, size in enumerate(x.shape) if at != dim]
    given = [size.hint for at, size in enumerate(source.shape) if at != dim]
    is_list = index.hints == (source.hints[dim],) if len(source.shape) > dim else False
    if len(source.shape) != len(x.shape) or wanted != given or not (is_list or index.hints == source.hints):
        raise Declined("a source that is not as wide as the tensor, or has another shape than the index")
    return builder.scatter(label, x, dim, index, source, wraps=wraps)


def _needs_numbers(builder: Builder) -> None:
    if builder.dtype == torch.bool:
        raise Declined("sums of booleans")


@rule("slice_scatter.default")
def slice_scatter(
    builder: Builder, self: Value, src: Value, dim: int, start: Any = None, end: Any = None, step: Any = 1
) -> Value:
    """A tensor with a part of it replaced; the file is held to a part as long."""
    needs_elements(builder, self, src)
    first, reach = 0 if start is None else start, 2**62 if end is None else end
    if not isinstance(first, int) or not isinstance(reach, int) or first < 0 or step != 1 or src.dtype != self.dtype:
        raise Declined("a part with steps, or counted from the end")
    dim %= len(self.shape)
    at, place = places(builder), builder.place(dim)
    behind, count = plus(place, -first), src.shape[dim]
    at[dim] = Literal(PLACE, 0) if count.hint == 1 else behind
    inside = (place >= first) & (behind < length(src, dim))
    last = f":{reach}" if reach < 2**62 else ":"
    part = measure(f"len(range({{0}})[{first or ''}{last}])", count.hint, "", (self, dim))
    before = cast(builder.read(self, places(builder)), compute_dtype(builder.dtype))
    element = cast(builder.read(src, at, inside), before.dtype)
    return builder.mapped(
        "slice_scatter", where(inside, element, before), lengths(self), claims=[(part, length(src, dim))]
    )
