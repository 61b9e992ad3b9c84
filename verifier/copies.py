"""Does a kernel do anything to what it is given? A launch may only copy it, or shift and scale it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import torch
from torch import Tensor

COPY, AFFINE = "copies", "shifts and scales"

Snapshot = Mapping[int, tuple[Tensor, Tensor]]
"""Memory by its address: a tensor in it, and its bytes before the launch."""


def change(before: Snapshot, given: Set[int], from_kernels: Set[int]) -> tuple[bool, str]:
    """Return whether a launch was given numbers that PyTorch computed, and what it made of what it was given.

    The latter is COPY or AFFINE when that is all; inputs and parameters, at the addresses `given`, do not count, nor
    for the former what kernels wrote before.
    """
    made = {start: pair for start, pair in before.items() if start not in given}
    fed = any(_varies(*pair) for start, pair in made.items() if start not in from_kernels)
    written = [new for new, old in before.values() if not torch.equal(_bytes(new), old[: _length(new, old)])]
    found = {_relation(tensor, list(made.values())) for tensor in written}
    if not found or "" in found:
        return fed, ""
    return fed, AFFINE if AFFINE in found else COPY


def _relation(tensor: Tensor, made: Sequence[tuple[Tensor, Tensor]]) -> str:
    now = _elements(tensor)
    found = ""
    for other, old in made:
        before = _typed(old, other)
        if before.shape != now.shape:
            continue
        if before.dtype == now.dtype and torch.equal(before.view(torch.uint8), now.view(torch.uint8)):
            return COPY
        if found == "" and _is_affine(before, now):
            found = AFFINE
    return found


def _varies(tensor: Tensor, old: Tensor) -> bool:
    """Tell whether there was more than one number in a tensor: more than an allocation leaves."""
    size = tensor.element_size()
    start = tensor.storage_offset()  # behind a guard band, or where a view begins
    count = 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    values = old[start * size : (start + count) * size].view(-1, size)
    return bool((values != values[:1]).any())


def _typed(old: Tensor, like: Tensor) -> Tensor:
    return old[: _length(like, old)].view(like.dtype)


def _length(tensor: Tensor, old: Tensor) -> int:
    return old.numel() // tensor.element_size() * tensor.element_size()


def _bytes(tensor: Tensor) -> Tensor:
    return _elements(tensor).view(torch.uint8)


def _elements(tensor: Tensor) -> Tensor:
    storage = tensor.untyped_storage()
    flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage)
    return flat[: storage.nbytes() // tensor.element_size()]


def _is_affine(before: Tensor, now: Tensor) -> bool:
    """Tell whether one line goes through all pairs: a scale and an offset for the whole tensor."""
    if not (before.is_floating_point() and now.is_floating_point()) or before.numel() < 16:
        return False
    x, y = before.double(), now.double()
    known = torch.isfinite(x)
    if not torch.equal(known, torch.isfinite(y)):
        return False
    x, y = x[known], y[known]
    x, y = x - x.mean(), y - y.mean()
    spread = x.square().sum()
    if not spread or not y.square().sum():
        return False
    rest = y - (x * y).sum() / spread * x
    return bool(rest.square().sum() <= 1e-10 * y.square().sum())
