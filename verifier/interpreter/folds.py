"""Reductions and scans by a function of the kernel's own: a slice at a time, where the interpreter takes each number.

tl.sort and tl.topk are built on such a reduction of two numbers: a row of 1000 took the interpreter half a minute.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def repair() -> None:
    """Patch the interpreter of this process."""
    from triton.runtime import interpreter as it

    it.ReduceOps.generic_reduce = _reduced
    it.ScanOps.generic_scan = _scanned


def _reduced(self: Any, given: tuple[Any, ...]) -> list[Any]:
    tensors, axis = self.unravel(given, self.axis)
    total = _slice(self, tensors, axis, 0)
    for place in range(1, tensors[0].handle.data.shape[axis]):
        total = _combined(self, tensors, total, _slice(self, tensors, axis, place))
    if not self.keep_dims:
        return list(total)
    rank = len(tensors[0].handle.data.shape)
    kept = axis if self.axis is not None else tuple(range(len(given[0].handle.data.shape)))
    folded = [np.expand_dims(_data(part, rank - 1), kept) for part in total]
    return [self.to_tensor(data, x.dtype) for data, x in zip(folded, tensors, strict=True)]


def _scanned(self: Any, given: tuple[Any, ...]) -> list[Any]:
    rank = len(given[0].handle.data.shape)
    steps = [_slice(self, given, self.axis, 0)]
    for place in range(1, given[0].handle.data.shape[self.axis]):
        steps.append(_combined(self, given, steps[-1], _slice(self, given, self.axis, place)))
    columns = [np.stack([_data(part, rank - 1) for part in parts], self.axis) for parts in zip(*steps, strict=True)]
    return [self.to_tensor(column, x.dtype) for column, x in zip(columns, given, strict=True)]


def _slice(self: Any, tensors: tuple[Any, ...], axis: int, place: int) -> tuple[Any, ...]:
    return tuple(self.to_tensor(np.take(x.handle.data, place, axis), x.dtype) for x in tensors)


def _combined(self: Any, tensors: tuple[Any, ...], left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    """Call the kernel's function, and keep each result in its operand's dtype."""
    result = self.combine_fn.fn(*left, *right)
    parts = result if isinstance(result, tuple) else (result,)
    rank = len(tensors[0].handle.data.shape)
    return tuple(self.to_tensor(_data(part, rank - 1), x.dtype) for part, x in zip(parts, tensors, strict=True))


def _data(part: Any, rank: int) -> Any:
    """Return a slice's numbers: those of a slice without dimensions the interpreter keeps in an array of one."""
    data = part.handle.data if hasattr(part, "handle") else np.asarray(part)
    return data if rank else data.reshape(())[()]
