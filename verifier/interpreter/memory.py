"""Every address a kernel touches: inside the launch's own tensors, and touched by one program where it is written.

Programs run one after another here but side by side on a GPU, so what one program writes and another reads or writes
in the same launch is a race, whatever value came out.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

Array = np.ndarray[Any, np.dtype[Any]]
NOBODY, SEVERAL = -1, -2
_GARBAGE = 1 << 20


class OutOfBounds(Exception):
    """A kernel touched memory that belongs to none of the tensors it was given."""


@dataclass(frozen=True)
class Finding:
    """Something the trace proves, whatever the values say."""

    code: Literal["out_of_bounds", "race"]
    message: str
    line: int | None


@dataclass
class _Block:
    """One storage of the launch, with who wrote and who read each of its elements."""

    name: str
    start: int
    end: int
    shift: int
    writer: Array
    reader: Array


@dataclass
class Memory:
    """Watches loads and stores. `fill_undefined` puts NaN into masked lanes that have no `other`."""

    kernel_file: str = ""
    fill_undefined: bool = False
    reverse: bool = False
    races: bool = True
    findings: list[Finding] = field(default_factory=list)
    undefined_lanes: int | None = None  # the line of a load that has such lanes
    rounded_dot: int | None = None  # the line of a float32 product that a GPU would compute in TF32
    _blocks: list[_Block] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    _program: int = NOBODY
    _synchronised: bool = False
    _kernel: str = ""

    def forget(self, kernel_file: str) -> None:
        """Start afresh for a candidate in this file."""
        self.kernel_file, self.findings = kernel_file, []
        self.undefined_lanes = self.rounded_dot = None

    def begin(self, kernel: str, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Open a launch: only these tensors may be touched."""
        blocks: dict[int, _Block] = {}
        for name, tensor in tensors:
            storage = tensor.untyped_storage()
            start, size = storage.data_ptr(), storage.nbytes()
            if start not in blocks and size:
                shift = tensor.element_size().bit_length() - 1
                slots = np.full((size >> shift) + 1, NOBODY, dtype=np.int32)
                blocks[start] = _Block(name, start, start + size, shift, slots, slots.copy())
        self._blocks = sorted(blocks.values(), key=lambda block: block.start)
        self._starts = [block.start for block in self._blocks]
        self._kernel, self._program, self._synchronised = kernel, NOBODY, False

    def next_program(self) -> None:
        """Note that the following accesses belong to another program."""
        self._program += 1
        self._synchronised = False

    def load(self, pointers: Array, mask: Array, size: int) -> None:
        """Check a load before it happens."""
        for block, at in self._inside(pointers, mask, size, "reads"):
            if not self.races or self._synchronised:
                continue
            writer, reader = block.writer[at], block.reader[at]
            if ((writer != NOBODY) & (writer != self._program)).any():
                self._race(f"reads {block.name} where another program of the same launch writes")
            block.reader[at] = np.where((reader == NOBODY) | (reader == self._program), self._program, SEVERAL)

    def store(self, pointers: Array, values: Array, mask: Array, present: Any) -> None:
        """Check a store before it happens; `present` reads what is there now, for stores that change nothing."""
        for block, at in self._inside(pointers, mask, values.itemsize, "writes"):
            if not self.races or self._synchronised:
                continue
            writer, reader = block.writer[at], block.reader[at]
            shared = ((writer != NOBODY) & (writer != self._program)) | ((reader != NOBODY) & (reader != self._program))
            if shared.any() and present():
                self._race(f"writes {block.name} where another program of the same launch reads or writes")
            block.writer[at] = self._program

    def atomic(self, pointers: Array, mask: Array, size: int) -> None:
        """Check an atomic's addresses; what a program does after one counts as ordered by it."""
        self._inside(pointers, mask, size, "writes")
        self._synchronised = True

    def _race(self, what: str) -> None:
        if not any(finding.code == "race" for finding in self.findings):
            self.findings.append(Finding("race", f"{self._kernel} {what}", self.line()))

    def _inside(self, pointers: Array, mask: Array, size: int, verb: str) -> list[tuple[_Block, Array]]:
        used = pointers[mask] if mask.shape == pointers.shape else pointers[np.broadcast_to(mask, pointers.shape)]
        if not used.size:
            return []
        low, high = int(used.min()), int(used.max())
        at = bisect_right(self._starts, low) - 1
        if at >= 0 and high + size <= self._blocks[at].end:
            block = self._blocks[at]
            return [(block, (used - np.uint64(block.start)).astype(np.int64) >> block.shift)]
        owner = np.searchsorted(np.array(self._starts, dtype=np.uint64), used, side="right") - 1
        ends = np.array([block.end for block in self._blocks] or [0], dtype=np.uint64)
        outside = (owner < 0) | (used + np.uint64(size) > ends[owner])
        if outside.any():
            self._out_of_bounds(used[outside], used.size, size, verb)
        blocks = [(self._blocks[i], used[owner == i]) for i in np.unique(owner)]
        return [(b, (a - np.uint64(b.start)).astype(np.int64) >> b.shift) for b, a in blocks]

    def _out_of_bounds(self, wild: Array, lanes: int, size: int, verb: str) -> None:
        address = int(wild[0])
        at = bisect_right(self._starts, address) - 1
        where = "outside every tensor it was given"
        if at >= 0:
            block = self._blocks[at]
            where = f"{(address - block.end) // size + 1} elements past the end of {block.name}"
        message = f"{self._kernel} {verb} {where} ({wild.size} of {lanes} lanes, program {self._program})"
        if not self.fill_undefined:  # there the address may come from the garbage we put in
            self.findings.append(Finding("out_of_bounds", message, self.line()))
        raise OutOfBounds(message)

    def line(self) -> int | None:
        """Return the line of the kernel that is being interpreted."""
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != self.kernel_file:
            frame = frame.f_back
        return frame.f_lineno if frame is not None else None

    def other(self, mask: Array, dtype: Any) -> Array:
        """Return what masked lanes without `other` hold: zeros, or on demand what nobody can mistake for data."""
        if not mask.all() and self.undefined_lanes is None:
            self.undefined_lanes = self.line() or 0
        if not self.fill_undefined:
            return np.zeros(mask.shape, dtype=dtype)
        if np.issubdtype(dtype, np.floating):
            return np.full(mask.shape, np.nan, dtype=dtype)
        if dtype == np.bool_:
            return np.ones(mask.shape, dtype=dtype)
        return np.full(mask.shape, min(_GARBAGE, np.iinfo(dtype).max), dtype=dtype)
