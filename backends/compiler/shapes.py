"""The launcher's shapes: what operands must have, what results are allocated with, how long the axes are."""

from __future__ import annotations

import re
from collections.abc import Iterable

from backends.compiler.axes import Axis, Layout, presence
from backends.compiler.group import Group
from backends.compiler.ir import Shape, Value
from backends.compiler.margin import TAB, WIDTH
from backends.compiler.signature import Signature


def words(text: str) -> set[str]:
    """Return the names in a piece of code."""
    return set(re.findall(r"[A-Za-z_]\w*", text))


def full_operand(operands: dict[Value, str], domain: Shape) -> tuple[Value, str] | None:
    """Find an operand that has every element of the domain."""
    return next(((value, name) for value, name in operands.items() if value.shape == domain), None)


def host_shape(operands: dict[Value, str], domain: Shape) -> str:
    """Write the domain's shape over the operands."""
    if full := full_operand(operands, domain):
        return f"{full[1]}.shape"
    return f"torch.broadcast_shapes({', '.join(f'{name}.shape' for name in operands.values())})"


def shape_checks(operands: dict[Value, str], domain: Shape, source: str) -> list[str]:
    """Refuse operands that broadcast in another way than the addresses were written for."""
    return [
        f"expect_shape({name}, {_expected_shape(value.shape, domain)})"
        for value, name in operands.items() if source != f"{name}.shape"
    ]


def _expected_shape(shape: Shape, domain: Shape) -> str:
    """Write an operand's shape over the launcher's `shape`."""
    lead = len(domain) - len(shape)
    has = presence(shape, domain)[lead:]
    if all(present or domain[lead + index].hint == 1 for index, present in enumerate(has)):
        return "shape" if lead == 0 else f"shape[{-len(shape)}:]" if shape else "()"
    return _tuple([f"shape[{lead + index}]" if present else "1" for index, present in enumerate(has)])


def _tuple(parts: list[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def contiguous(operands: dict[Value, str]) -> list[str]:
    """Lay out what may be strided in memory as its shape says; a no-op for most tensors."""
    strided = [name for value, name in operands.items() if not value.dense]
    if not strided:
        return []
    line = f"{', '.join(strided)} = {', '.join(f'{name}.contiguous()' for name in strided)}"
    return [line] if len(TAB + line) <= WIDTH else [f"{name} = {name}.contiguous()" for name in strided]


def allocation(group: Group, signature: Signature, value: Value, *, is_squeezed: bool) -> str:
    """Allocate a result beside the first operand."""
    name, operands = signature.results[value], signature.operands
    is_full = value.shape == group.domain and not is_squeezed
    if is_full and (full := full_operand(operands, group.domain)):
        return f"{name} = torch.empty_like({full[1]}{_dtype(value, full[0])})"
    like, first = next(iter(operands.items()))
    shape = "shape" if is_full else _reduced_shape(group, is_squeezed)
    return f"{name} = {first}.new_empty({shape}{_dtype(value, like)})"


def _dtype(value: Value, like: Value) -> str:
    return f", dtype={value.dtype}" if value.dtype != like.dtype else ""


def _reduced_shape(group: Group, is_squeezed: bool) -> str:
    """Write the shape that is left after the reduction, over the launcher's `shape`."""
    rank, dims = len(group.domain), group.dims
    first = dims[0] if dims else rank
    if dims != tuple(range(first, rank)):
        parts = [f"shape[{index}]" if index not in dims else "1" for index in range(rank)]
        return _tuple([part for index, part in enumerate(parts) if index not in dims or not is_squeezed])
    kept = f"shape[:{first - rank}]" if first else ""
    if is_squeezed:
        return kept or "()"
    ones = ", ".join("1" for _ in dims)
    return f"(*{kept}, {ones})" if kept else f"({ones},)"


def lengths(layout: Layout, needed: Iterable[str]) -> list[str]:
    """Define the axes' lengths that are needed."""
    rank = len(layout.domain)
    return [f"{axis.size} = {_length(axis, rank)}" for axis in layout.axes if axis.size in set(needed)]


def _length(axis: Axis, rank: int) -> str:
    first, last = axis.dims[0], axis.dims[-1]
    if len(axis.dims) == 1:
        return "shape[-1]" if first == rank - 1 else f"shape[{first}]"
    start, end = first or "", last + 1 if last != rank - 1 else ""
    return f"math.prod(shape[{start}:{end}])" if start or end else "math.prod(shape)"


def described(layout: Layout) -> str:
    """Write the domain's shape by the axes' lengths: (..., n_columns)."""
    named = {axis.dims[0]: axis.size if len(axis.dims) == 1 else "..." for axis in layout.axes}
    inner = {dim for axis in layout.axes for dim in axis.dims[1:]}
    many = [axis for axis in layout.axes if len(axis.dims) > 1]
    for axis in many if len(many) > 1 else []:
        named[axis.dims[0]] = f"*{axis.size}"  # only one run can be "..."
    return _tuple([named.get(dim, "1") for dim in range(len(layout.domain)) if dim not in inner])
