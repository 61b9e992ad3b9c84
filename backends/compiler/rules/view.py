"""Movement: the same numbers at other indices. Views cost nothing and are made on the host."""

from __future__ import annotations

from typing import Any

from backends.compiler.build import Builder
from backends.compiler.expression import Scalar
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule


def size_text(size: Any) -> str:
    """Write one size of a view's arguments."""
    return size.host if isinstance(size, Scalar) else str(size)


def sizes_text(sizes: Any) -> str:
    """Write sizes as arguments; no sizes at all as the empty tuple."""
    return ", ".join(size_text(size) for size in sizes) or "()"


def _moved(builder: Builder, self: Value, text: str, label: str, *, dense: bool = False) -> Value:
    assert builder.result is not None
    return builder.view(self, builder.result.shape, "{0}" + text, label=label, dense=dense)


@rule("view.default", "_unsafe_view.default", "reshape.default")
def view(builder: Builder, self: Value, size: Any = None, shape: Any = None) -> Value:
    sizes = size if size is not None else shape
    assert builder.result is not None
    if builder.result.hints == self.hints and builder.result.shape == self.shape:
        return self
    return _split_or_merged(builder, self, sizes) or builder.view(
        self, builder.result.shape, f"{{0}}.reshape({_loose(sizes)})", label="view", dense=True
    )


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
        return builder.unflatten(x, lead, new[lead : lead + after], f"({_loose(split)})")
    if after == 1 and before > 1:
        return builder.flatten(x, lead, lead + before - 1, new[lead])
    return None


def _loose(sizes: Any) -> str:
    """Write sizes, the largest bare number as -1: it may be another one when the module is built with others."""
    texts = [size_text(size) for size in sizes]
    numbers = [(size, i) for i, size in enumerate(sizes) if isinstance(size, int) and not isinstance(size, bool)]
    if not any(size == -1 for size, _ in numbers) and numbers and max(numbers)[0] > 1:
        texts[max(numbers)[1]] = "-1"
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
    return builder.flatten(self, start, end, builder.result.shape[start])


@rule("unflatten.int")
def unflatten(builder: Builder, self: Value, dim: int, sizes: Any) -> Value:
    assert builder.result is not None
    start = dim % len(self.shape)
    count = len(builder.result.shape) - len(self.shape) + 1
    return builder.unflatten(self, start, builder.result.shape[start : start + count], f"({sizes_text(sizes)},)")


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
    return _moved(builder, self, f".permute({sizes_text(dims)})", "permute")


@rule("transpose.int", "swapaxes.default", "swapdims.default")
def transpose(
    builder: Builder, self: Value, dim0: int | None = None, dim1: int | None = None, axis0: int | None = None,
    axis1: int | None = None,
) -> Value:
    first, second = (dim0, dim1) if dim0 is not None else (axis0, axis1)
    return _moved(builder, self, f".transpose({first}, {second})", "transpose")


@rule("t.default", "numpy_T.default")
def t(builder: Builder, self: Value) -> Value:
    if len(self.shape) != 2:
        raise Declined("t of what is no matrix")
    return _moved(builder, self, ".t()", "t")


@rule("mT.default", "matrix_H.default", "adjoint.default")
def matrix_transpose(builder: Builder, self: Value) -> Value:
    return _moved(builder, self, ".mT", "mT")


@rule("expand.default", "broadcast_to.default")
def expand(builder: Builder, self: Value, size: Any, implicit: bool = False) -> Value:
    assert builder.result is not None
    text = f"{{0}}.expand({sizes_text(size)})"
    return builder.view(self, builder.result.shape, text, "expand", label="expand", dense=False)


@rule("expand_as.default")
def expand_as(builder: Builder, self: Value, other: Value) -> Value:
    assert builder.result is not None
    sizes = ", ".join(builder.size_text(size) for size in builder.result.shape)
    return builder.view(self, builder.result.shape, f"{{0}}.expand({sizes})", "expand", label="expand", dense=False)


@rule("select.int")
def select(builder: Builder, self: Value, dim: int, index: Any) -> Value:
    return _moved(builder, self, f".select({dim}, {size_text(index)})", "select")


@rule("slice.Tensor")
def slice_(builder: Builder, self: Value, dim: int, start: Any, end: Any, step: Any) -> Value:
    first = "" if start in (None, 0) else size_text(start)
    last = "" if end is None or (isinstance(end, int) and end >= 2**62) else size_text(end)
    stride = "" if step == 1 else f":{size_text(step)}"
    if not (first or last or stride):
        return self
    before = ":, " * (dim % len(self.shape))
    return _moved(builder, self, f"[{before}{first}:{last}{stride}]", "slice")


@rule(
    "contiguous.default", "positive.default", "resolve_conj.default", "resolve_neg.default", "detach.default",
    "alias.default", "lift_fresh_copy.default", "detach_.default",
)
def same(builder: Builder, self: Value) -> Value:
    return self


@rule("clone.default")
def clone(builder: Builder, self: Value) -> Value:
    """A copy is only needed where something is written in place later."""
    if not builder.program_writes_in_place:
        return self
    return builder.pointwise("clone", builder.element(self, self.dtype))
