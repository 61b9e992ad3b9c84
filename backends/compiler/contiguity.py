"""Whether traced tensors are contiguous, read off the numbers that their sizes have while they are traced.

The exporter asks it of every result, several times over, and proves the answer for any size: in a deep network, where
sizes are formulas of formulas, that took half of the time. What a file assumes of layouts it checks itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

Strides = Sequence[int]

ORDERS: dict[str, Callable[[Strides], Sequence[int]]] = {
    "is_contiguous": lambda strides: range(len(strides))[::-1],
    "is_channels_last_contiguous_2d": lambda strides: (1, 3, 2, 0) if len(strides) == 4 else (),
    "is_channels_last_contiguous_3d": lambda strides: (1, 4, 3, 2, 0) if len(strides) == 5 else (),
    "is_non_overlapping_and_dense_or_false": lambda strides: sorted(range(len(strides)), key=strides.__getitem__),
}
"""PyTorch's questions, and the dimensions as they then lie, the innermost first; none where the rank is another."""


@contextmanager
def read_off() -> Iterator[None]:
    """Answer PyTorch's questions by the numbers at hand."""
    proved = {name: getattr(torch._prims_common, name) for name in ORDERS}
    for name, order in ORDERS.items():
        setattr(torch._prims_common, name, _by_numbers(order, proved[name]))
    try:
        yield
    finally:
        for name, function in proved.items():
            setattr(torch._prims_common, name, function)


def _by_numbers(order: Callable[[Strides], Sequence[int]], proved: Callable[..., bool]) -> Callable[..., bool]:
    def ask(tensor: torch.Tensor, *arguments: Any, **keywords: Any) -> bool:
        is_nested = _is_nested(tensor, order) if tensor.layout is torch.strided else None
        return proved(tensor, *arguments, **keywords) if is_nested is None else is_nested

    return ask


def _is_nested(tensor: torch.Tensor, order: Callable[[Strides], Sequence[int]]) -> bool | None:
    """Tell whether each stride is the product of the lengths inside; None where that may be another for other sizes."""
    lengths, strides = list(map(_number, tensor.shape)), list(map(_number, tensor.stride()))
    if 0 in lengths or 0 in strides:
        return None
    dims, expected, symbols = order(strides), 1, set[Any]()
    if len(dims) < len(lengths):
        return False
    for dim in dims:
        if lengths[dim] == 1:
            continue
        if strides[dim] != expected:
            return False
        if _symbols(tensor.stride(dim)) != symbols:
            return None  # equal by chance
        expected *= lengths[dim]
        symbols |= _symbols(tensor.shape[dim])
    return True


def _number(size: Any) -> int:
    """Read what a size is at capture; 0 where it is 1 or less, or unknown, and could be more."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    number = size.node.hint
    return number if number is not None and number > 1 else 0


def _symbols(size: Any) -> set[Any]:
    return size.node.expr.free_symbols if isinstance(size, torch.SymInt) else set()
