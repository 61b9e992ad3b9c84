"""Guard bands on a GPU: tensors lie between two bands of NaN, and a kernel that writes into a band is found out.

Without an interpreter nobody sees the addresses; a missing mask at the end of a tensor usually hits memory that belongs
to the allocator, changes nothing that is compared, and would pass. What reads a band reads NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from verifier.tree import map_tensors

BAND = 64 << 10
"""Bytes on either side: a block of the usual sizes ends in it. A multiple of every alignment that Triton looks at."""
_FILL = 0xFF  # in every byte: NaN in the floating point types, -1 in the signed integers


@dataclass(frozen=True)
class _Block:
    """One guarded piece of memory: the whole of it, and where the tensors' own part ends."""

    memory: torch.Tensor
    end: int

    def overwritten(self) -> tuple[int, int]:
        """Count the changed bytes before and behind the tensors' own part."""
        before = (self.memory[:BAND] != _FILL).sum()
        behind = (self.memory[self.end :] != _FILL).sum()
        return int(before), int(behind)


class Guards:
    """The guarded memory of one call, beside what was guarded before it (a module's parameters)."""

    def __init__(self, kept: Guards | None = None) -> None:
        self._blocks: dict[int, _Block] = dict(kept._blocks) if kept is not None else {}

    def around(self, value: Any) -> Any:
        """Copy the tensors of a nested value between bands; strides and what shares memory stay as they are."""
        moved: dict[int, _Block] = {}

        def guarded(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if tensor.layout is not torch.strided or tensor.is_quantized or not storage.nbytes():
                return tensor
            if storage.data_ptr() in self._blocks:
                return tensor  # it is between bands already
            if storage.data_ptr() not in moved:
                moved[storage.data_ptr()] = self._new(storage, tensor.device)
            start = BAND // tensor.element_size() + tensor.storage_offset()
            new = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            return new.set_(moved[storage.data_ptr()].memory.untyped_storage(), start, tensor.size(), tensor.stride())

        with _disable_current_modes():
            return map_tensors(guarded, value)

    def _new(self, storage: torch.UntypedStorage, device: torch.device) -> _Block:
        size = storage.nbytes()
        memory = torch.full((2 * BAND + size,), _FILL, dtype=torch.uint8, device=device)
        memory[BAND : BAND + size] = torch.empty(0, dtype=torch.uint8, device=device).set_(storage)
        block = _Block(memory, BAND + size)
        self._blocks[memory.untyped_storage().data_ptr()] = block
        return block

    def find(self, kernel: str, arguments: Iterable[tuple[str, torch.Tensor]]) -> str:
        """Say which of a launch's arguments it wrote beside, "" for none; the bands are whole again afterwards."""
        with _disable_current_modes():
            for name, tensor in arguments:
                block = self._blocks.get(tensor.untyped_storage().data_ptr())
                if block is None:
                    continue
                before, behind = block.overwritten()
                if before or behind:
                    block.memory[:BAND] = block.memory[block.end :] = _FILL
                    where = "before" if before else "behind"
                    size = f"{before or behind} bytes or more"
                    return f"{kernel} writes {where} the memory of {name} ({size})"
        return ""


def guard_parameters(model: torch.nn.Module, guards: Guards) -> None:
    """Move a module's parameters and buffers between bands, in place."""
    tensors: Mapping[str, torch.Tensor] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    values = guards.around({name: tensor.data for name, tensor in tensors.items()})
    for name, tensor in tensors.items():
        tensor.data = values[name]
