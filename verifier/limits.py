"""What one run of a problem may cost, on the interpreter and on a GPU."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch

from verifier.footprint import Footprint


@dataclass(frozen=True)
class Limits:
    """What one run may cost. The interpreter takes about 0.6 ms a program, 2 ms a row, 2.8 ms a 32x32x32 product."""

    held: int = 1_000_000
    largest: int = 40_000
    produced: int = 1_000_000
    rows: int = 1024
    products: int = 2**23
    convolved: int = 2**18
    operations: int = 4_000

    def excess(self, found: Footprint) -> float:
        """Return by which factor the worst limit is exceeded; at most 1 means it fits."""
        ratios: list[float] = [getattr(found, limit.name) / getattr(self, limit.name) for limit in fields(self)]
        return max(ratios)


COMFORTABLE = Limits()
ACCEPTABLE = Limits(
    held=150_000_000,
    largest=1_000_000,
    produced=30_000_000,
    rows=16_384,
    products=2**26,
    convolved=2**33,
    operations=40_000,
)
"""Beyond this a run takes many seconds even where PyTorch does most of the work."""


CHECKED_ON_GPU = 2**20
"""Elements that results may have where they are compared number by number; the clock always sees the full size."""


def limits_for(device: str) -> tuple[Limits, Limits]:
    """Return what fits well and what fits at all: the interpreter's patience, or a GPU's memory."""
    if not device.startswith("cuda"):
        return COMFORTABLE, ACCEPTABLE
    whole = torch.cuda.mem_get_info()[0] // 48  # values, their float64 twins and a probe
    return _on_gpu(min(CHECKED_ON_GPU, whole)), _on_gpu(whole)


def _on_gpu(elements: int) -> Limits:
    """Only memory counts where programs run side by side."""
    return Limits(
        held=elements, largest=elements, produced=2**62, rows=2**62, products=2**62, convolved=2**62, operations=2**62
    )
