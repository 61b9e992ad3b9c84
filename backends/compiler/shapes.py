"""The launcher's shapes: what operands must have, what results are allocated with, how long the axes are."""

from __future__ import annotations

import re
from collections.abc import Iterable

from backends.compiler.axes import Axis, Layout, presence
from backends.compiler.expression import Expr, Index, Literal, Scalar
from backends.compiler.group import Group
from backends.compiler.indexed import Measure
from backends.compiler.ir import Order, Pointwise, Reduce, Scan, Scatter, Shape, Value, root
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


def in_place(group: Group, operands: dict[Value, str]) -> dict[Value, str]:
    """Those of the operands that broadcast to the domain."""
    wanted = set(group.in_place)
    return {value: name for value, name in operands.items() if value in wanted}


def mapped_shape(group: Group, signature: Signature) -> str:
    """Write the domain's shape where operands are read at computed places; "" where one has it anyway."""
    if full_operand(in_place(group, signature.operands), group.domain):
        return ""
    extents = _extents(group, signature)
    return _tuple(_runs(extents)) if extents else ""


def _extents(group: Group, signature: Signature) -> list[str]:
    """Write each of the domain's lengths, where a rule gave them."""
    for op in group.ops:
        if isinstance(op, Pointwise) and op.extents is not None and op.out.shape == group.domain:
            return [_extent_text(extent, signature) for extent in op.extents]
    return []


def _extent_text(extent: Expr, signature: Signature) -> str:
    """Write a length in the launcher, where forward's own names are not known."""
    if isinstance(extent, Measure):
        texts = [_length_text(value, dim, signature) for value, dim in extent.lengths]
        if extent.text == "{0}":
            return texts[0]
        return extent.text.format(*(f"({text})" if " " in text else text for text in texts))
    assert isinstance(extent, (Literal, Scalar))
    return signature.scalars[extent.host] if isinstance(extent, Scalar) else str(extent.number)


def _length_text(value: Value, dim: int, signature: Signature) -> str:
    """Write a length, of a tensor that the kernel itself makes over what it is made of."""
    if value in signature.operands:
        return f"{signature.operands[value]}.shape[{dim}]"
    op = value.op
    if isinstance(op, Pointwise) and op.extents is not None:
        return _extent_text(op.extents[dim], signature)
    from_end = len(value.shape) - dim
    source = next(
        read
        for read in (op.in_place if op else [])
        if len(read.shape) >= from_end and read.shape[-from_end].hint == value.shape[dim].hint
    )
    return _length_text(source, len(source.shape) - from_end, signature)


LENGTH = re.compile(r"(\w+)\.shape\[(\d+)\]")


def _runs(texts: list[str]) -> list[str]:
    """Write neighbouring lengths of one tensor as one slice of its shape."""
    found: list[tuple[str, str, int, int]] = []  # text, tensor, first, last
    for text in texts:
        match = LENGTH.fullmatch(text)
        tensor, dim = (match[1], int(match[2])) if match else ("", -1)
        if found and tensor and found[-1][1] == tensor and found[-1][3] == dim - 1:
            first = found[-1][2]
            found[-1] = (f"*{tensor}.shape[{first or ''}:{dim + 1}]", tensor, first, dim)
        else:
            found.append((text, tensor, dim, dim))
    return [text for text, *_ in found]


def measured(signature: Signature, needed: Iterable[str]) -> list[str]:
    """Define the numbers that are read off the operands' shapes."""
    wanted = set(needed)
    return [
        f"{name} = {text.format(*(f'{signature.operands[value]}.shape[{dim}]' for value, dim in dims))}"
        for (text, dims), name in signature.measures.items()
        if name in wanted
    ]


def reading_checks(group: Group, signature: Signature) -> list[str]:
    """Refuse operands whose lengths differ where an address takes them for the domain's."""
    rank, lines, operands = len(group.domain), dict[str, None](), signature.operands
    full = full_operand(in_place(group, operands), group.domain)
    known = [f"{full[1]}.shape[{dim}]" for dim in range(rank)] if full else _extents(group, signature)
    pinned = {f"{operands[value]}.shape[{dim}]" for value in group.in_place for dim in range(len(value.shape))}
    for read in group.reads:
        name, parts, is_plain = operands[read.value], [], True
        for at, index in enumerate(read.indices):
            dim = rank - index.from_end if isinstance(index, Index) else -1
            own = f"{name}.shape[{at}]"
            is_single = read.value.shape[at].hint == 1 and _is_given(read.value)
            is_domain = dim >= 0 and read.value.shape[at] == group.domain[dim] and known[dim] != own
            parts.append("1" if is_single else f"shape[{dim}]" if is_domain else own)
            is_plain = is_plain and not is_domain and not is_single
            pinned |= {own} if is_domain or is_single else set()
        if not is_plain:
            lines[f"expect_shape({name}, {_tuple(_runs(parts))})"] = None
    return [*lines, *_length_checks(group, signature, known, pinned)]


def _length_checks(group: Group, signature: Signature, known: list[str], pinned: set[str]) -> list[str]:
    """Refuse lengths that are not what a reading needs; those in `pinned` have been checked."""
    lines = dict[str, None]()
    for op in group.ops:
        if not isinstance(op, Pointwise) or len(op.out.shape) != len(group.domain):
            continue
        own = list(enumerate(op.extents)) if op.extents is not None and op.out.shape == group.domain else []
        for wanted, extent in [*own, *op.claims]:
            if isinstance(extent, Scalar) or (isinstance(wanted, int) and group.domain[wanted].hint == 1):
                continue
            is_fixed = isinstance(wanted, int) and group.domain[wanted].symbol is None and isinstance(extent, Literal)
            text = known[wanted] if isinstance(wanted, int) else _extent_text(wanted, signature)
            found = _extent_text(extent, signature)
            if text != found and found not in pinned and not is_fixed:
                text = f"shape[{wanted}]" if isinstance(wanted, int) else text
                lines[f"expect_length({found}, {text})"] = None
    return list(lines)


def _is_given(value: Value) -> bool:
    """Tell whether a tensor comes from outside of the kernels: only such a one can have more places than before."""
    source = root(value)
    return not isinstance(source.op, (Pointwise, Reduce, Scan, Order, Scatter)) and not (source.host or "").startswith(
        "self."
    )


def shape_checks(operands: dict[Value, str], domain: Shape, source: str, *, of_any_shape: bool = False) -> list[str]:
    """Refuse operands that broadcast in another way than the addresses were written for.

    `source` is what the launcher's `shape` is taken from: there, what had one place must have one still.
    """
    single = any(size.hint == 1 for size in domain) and not of_any_shape
    lines = []
    for value, name in operands.items():
        is_source = source == f"{name}.shape"
        if not is_source:
            lines.append(f"expect_shape({name}, {_expected_shape(value.shape, domain)})")
        elif single and _is_given(value):
            parts = ["1" if size.hint == 1 else f"{name}.shape[{dim}]" for dim, size in enumerate(domain)]
            lines.insert(0, f"expect_shape({name}, {_tuple(_runs(parts))})")
    return lines


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
    count = value.op.count if isinstance(value.op, Order) else None
    is_full = value.shape == group.domain and not is_squeezed and count is None
    if is_full and (full := full_operand(in_place(group, operands), group.domain)):
        return f"{name} = torch.empty_like({full[1]}{_dtype(value, full[0])})"
    like, first = next(iter(operands.items()))
    shape = "shape" if is_full else _reduced_shape(group, is_squeezed)
    if count is not None:
        shape = f"(*shape[:-1], {count})" if len(group.domain) > 1 else f"({count},)"
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
