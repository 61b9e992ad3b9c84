"""Room in a GPU's memory for what a measurement needs, where others hold some of it for a while."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from verifier import turns

SECONDS = 120.0
"""After which nobody is waited for any more: what does not fit then does not fit."""
MARGIN = 0.2
"""Share of the memory that is left to verifications beside measurements."""
EMPTY = 0.8
"""Share of the memory that is free or ours from which on there is nobody to wait for."""


def reserve(tensors: Sequence[torch.Tensor], copies: int) -> None:
    """Take memory for so many copies of these tensors as soon as there is room; raise torch.OutOfMemoryError.

    It is this process's from then on: PyTorch keeps what is given back to it for what is allocated next.
    """
    wanted = copies * sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    with turns.one_by_one():
        end = time.monotonic() + SECONDS
        while _is_held_by_others(wanted) and time.monotonic() < end:
            time.sleep(0.1)
        taken = [torch.empty_like(tensor) for _ in range(copies) for tensor in tensors]
    del taken


def _is_held_by_others(wanted: int) -> bool:
    """Tell whether there is too little room for so many bytes, and somebody else who may give some back."""
    free, total = torch.cuda.mem_get_info()
    return bool(free < wanted + int(MARGIN * total) and free + torch.cuda.memory_reserved() <= EMPTY * total)
