"""Sums over every stretch of a result: what a full-size result is compared by, where no oracle of that size is at hand.

Rounding changes a stretch's sum by far less than its absolute sum; a tile that was not written, or was written
somewhere else (an offset beyond 2**31), changes it by a share of it.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from verifier.tree import flatten

STRETCH = 1 << 16
"""Elements in a sum: a wrong tile of the usual sizes is a noticeable share of them."""
MOST = 1 << 15
"""Sums a tensor: beyond 2**31 elements the stretches become longer."""
FLOATS, INTEGERS = 2e-3, 2e-2
"""Share of a stretch's absolute sum by which two right results may differ: TF32 on one side, indices of near ties."""

Checksums = list[dict[str, Any]]


def checksums(output: Any) -> Checksums:
    """Return for every tensor its stretch length, and of each stretch the sum and the sum of absolute values."""
    return [_of(tensor.detach()) for tensor in flatten(output).tensors if not tensor.is_complex()]


def _of(tensor: torch.Tensor) -> dict[str, Any]:
    flat = tensor.reshape(-1)
    length = max(STRETCH, -(-flat.numel() // MOST))
    whole = flat.numel() // length
    parts = [flat[: whole * length].view(whole, length), flat[whole * length :].view(1, -1)]
    sums, sizes = [], []
    for part in parts:
        if part.numel():
            numbers = part if part.is_floating_point() else part.double()
            sums += torch.sum(numbers, dim=1, dtype=torch.float64).tolist()
            sizes += torch.linalg.vector_norm(numbers, 1, dim=1, dtype=torch.float64).tolist()
    shape = {"elements": flat.numel(), "stretch": length, "exact": not tensor.is_floating_point()}
    return {**shape, "sums": sums, "sizes": sizes}


def difference(known: Checksums, seen: Checksums) -> str:
    """Say where two results of the same problem differ by more than rounding; "" where they do not."""
    if len(known) != len(seen):
        return "another number of results"
    for number, (one, other) in enumerate(zip(known, seen, strict=True)):
        if one["elements"] != other["elements"]:
            return f"result {number} has another size"
        at = _first(one, other)
        if at is not None:
            begin = at * one["stretch"]
            return (
                f"from element {begin} of result {number} on, {one['stretch']} elements sum to "
                f"{other['sums'][at]:.6g} and not to {one['sums'][at]:.6g}"
            )
    return ""


def _first(one: dict[str, Any], other: dict[str, Any]) -> int | None:
    allowed = INTEGERS if one["exact"] else FLOATS
    finite = [size for size in one["sizes"] if math.isfinite(size)]
    usual = sum(finite) / one["elements"] if finite else 0.0  # an element's
    columns = (one["sums"], other["sums"], one["sizes"], other["sizes"])
    for at, (sum_, other_sum, size, other_size) in enumerate(zip(*columns, strict=True)):
        if not math.isfinite(size) or not math.isfinite(other_size):
            if _kind(size) != _kind(other_size):
                return at
            continue
        length = min(one["stretch"], one["elements"] - at * one["stretch"])
        limit = allowed * max(size, usual * length)
        if abs(sum_ - other_sum) > limit or abs(size - other_size) > limit:
            return at
    return None


def _kind(value: float) -> str:
    return "nan" if math.isnan(value) else "infinite" if math.isinf(value) else "finite"
