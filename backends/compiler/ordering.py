"""Sorting a row in registers: numbers become integers in their order, each with its place behind it.

No two of those are equal, so what is equal stays in the order of its places, as in PyTorch's stable sort.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from backends.compiler.body import Body, stored
from backends.compiler.frame import Frame
from backends.compiler.group import Group
from backends.compiler.ir import Order, Value
from backends.compiler.text import TYPES

LONGEST = 8192
"""Elements of a row that one program sorts."""
FASTER = 512
"""Elements of a row up to which a whole sort is faster than PyTorch's. On an H200, 1024 rows of 128 took 0.3 of its
time, of 1024 1.4, and of 4096 3.3; the largest 50 of 8192 took 0.4, the largest 8 of 256 took 0.2."""
FEW = 64
"""How many of the largest may be kept for that."""
WIDE = (torch.int64, torch.float64)
"""Types whose numbers leave no room for a place behind them in 64 bits."""
LAST = torch.iinfo(torch.int32).max
OWN_NAMES = ("key", "rank", "K", "BLOCK_K")


def framed(group: Group, frame: Frame) -> Frame:
    """Adapt a frame of rows: to how many are kept, and to how long a row may be."""
    length, count = frame.layout.length, group.orders[0].count
    too_long = f"{length} > {LONGEST}", f"a row of {{{length}}} elements is more than one program sorts"
    limits = (*frame.limits[:-1], too_long)  # of a row's length, this one is the narrower
    if count is None:
        return replace(frame, limits=limits)
    kept = {"K": str(count), "BLOCK_K": str(1 << (count - 1).bit_length())}
    return replace(frame, limits=limits, constexprs={**kept, **frame.constexprs})


def ordered(body: Body, op: Order, names: dict[Value, str]) -> list[str]:
    """Write the sort that gives elements and places, once."""
    if op.out in names:
        return []
    pair = {other.is_place: other for other in body.group.orders if other.goes_with(op)}
    source, dtype, place = names[op.source], op.source.dtype, body.signature.names.unused("place")
    way, kept = "~" if op.is_descending else "", "BLOCK" if op.count is None else "BLOCK_K"
    key = f"order_of({source})" if dtype.is_floating_point else source
    key = key if dtype.is_floating_point or dtype == torch.int32 else f"{key}.to(tl.int32)"
    found = f"place_and_sign({body.layout.place}, {source})" if dtype.is_floating_point else body.layout.place
    lines = [
        "# what lies outside comes last",
        f"key = tl.where({body.mask('all')}, {way}{key}, {LAST})",
        f"key, {place} = in_order(key, {found}, {kept})",
    ]
    if False in pair:
        names[pair[False].out] = value = body.name(pair[False])
        lines.append(f"{value} = {_number(f'{way}key', place, dtype)}")
    if True in pair:
        names[pair[True].out] = indices = body.name(pair[True])
        lines.append(f"{indices} = {f'({place} >> 1)' if dtype.is_floating_point else place}.to(tl.int64)")
    return lines


def _number(key: str, place: str, dtype: torch.dtype) -> str:
    """Write the number that a key stands for."""
    if dtype.is_floating_point:
        return f"number_of({key}, {place})"
    if dtype == torch.bool:
        return f"({key}) != 0"
    return key if dtype == torch.int32 else f"({key}).to({TYPES[dtype]})"


def stored_first(body: Body, value: Value, names: dict[Value, str]) -> list[str]:
    """Write the store of the first elements of each row."""
    frame, name = body.frame, body.signature.names_of[value]
    is_tile = frame.tile != "(BLOCK,)"
    line = f"{frame.line_name} * K + " if frame.line else ""
    mask = " & ".join([*([body.mask("line")] if is_tile else []), "(rank < K)" if is_tile else "rank < K"])
    rank = f"rank = tl.arange(0, BLOCK_K){'[None, :]' if is_tile else ''}"
    first = next(out for out in body.group.outputs if isinstance(out.op, Order))
    return [*([rank] if value is first else []), stored(name, f"{line}rank", mask, names[value])]
