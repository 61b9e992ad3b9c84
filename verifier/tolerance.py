"""How far a kernel's value may be from the truth: what its dtype, the output's size and eager's own error allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

Precision = Literal["exact", "fast"]
"""How exact a kernel must be: as PyTorch is, or float32 only as TF32 is (ten bits of mantissa, float16's)."""

RELATIVE = {torch.float64: 1e-11, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}
TF32_RELATIVE = 5e-4
COARSEST = 0.15  # eight-bit floats: half a step of three mantissa bits, and accumulation
PIECE = 2**24  # elements judged at once: a 13 GB output must not need five more copies in float64


@dataclass(frozen=True)
class Truth:
    """What one tensor should be.

    `eager` is PyTorch's own answer, `oracle` the float64 one (the same numbers when there is none), `probe` a
    float64 run in which every step was disturbed by one rounding: how far an honest kernel may drift.
    `lines` holds the rms of eager's and the probe's errors along each dimension. `untouched` is a tensor that
    must come back bit for bit. `relative` is the share of a value that its dtype, or less precision where that is
    accepted, may cost.
    """

    eager: Tensor
    oracle: Tensor
    probe: Tensor | None
    scale: float
    lines: tuple[Tensor, ...]
    untouched: bool = False
    relative: float = 0.0

    @property
    def exact(self) -> bool:
        """True for integers and booleans, and for what must not change: no distance is allowed."""
        return self.untouched or not (self.eager.is_floating_point() or self.eager.is_complex())


def untouched(tensor: Tensor) -> Truth:
    """Build the truth for a tensor that must come back bit for bit."""
    return Truth(tensor.detach(), tensor.detach(), None, 1.0, (), untouched=True)


def truth(
    eager: Tensor, oracle: Tensor | None = None, probes: Sequence[Tensor] = (), precision: Precision = "exact"
) -> Truth:
    """Build the truth for one tensor from eager's answer, the oracle's and those of disturbed runs."""
    eager = eager.detach()
    probes = [probe.detach() for probe in probes if probe.shape == eager.shape]
    if oracle is None or oracle.shape != eager.shape or _unrelated(eager, oracle, probes):
        oracle, probes = widen(eager), []
    exact = not (eager.is_floating_point() or eager.is_complex())
    if exact:
        return Truth(eager, oracle.detach(), None, 1.0, ())
    oracle = widen(oracle.detach())
    probe = None
    for other in map(widen, probes):  # keep whichever went farther
        probe = other if probe is None else torch.where((other - oracle).abs() > (probe - oracle).abs(), other, probe)
    scale = _scale(oracle if eager.dtype == torch.float64 else widen(eager))
    partial = Truth(eager, oracle, probe, scale, (), relative=_relative(eager.dtype, precision))
    return replace(partial, lines=_lines(partial))


def _relative(dtype: torch.dtype, precision: Precision) -> float:
    if precision == "fast" and _real(dtype) == torch.float32:
        return TF32_RELATIVE
    return RELATIVE.get(_real(dtype), COARSEST)


def _unrelated(eager: Tensor, oracle: Tensor, probes: Sequence[Tensor]) -> bool:
    """Tell whether float64 changed what the module computes (other random numbers, a branch on the dtype)."""
    if not (eager.is_floating_point() or eager.is_complex()) or not eager.numel():
        return False
    wide, narrow = widen(oracle), widen(eager)
    coarse = 100 * RELATIVE.get(_real(eager.dtype), COARSEST) * (wide.abs() + narrow.abs())
    coarse = coarse + 100 * torch.finfo(eager.dtype).tiny  # what underflows to 0 is still the same function
    for probe in probes:
        coarse = coarse + 100 * (widen(probe) - wide).abs()
    far = torch.isfinite(narrow) & ((narrow - wide).abs() > coarse)
    return bool(far.double().mean() > 0.2)


def widen(tensor: Tensor) -> Tensor:
    """Return the tensor in float64 (complex128), integers unchanged."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.to(torch.float64) if tensor.is_floating_point() else tensor


def pieces(tensor: Tensor) -> Iterator[slice]:
    """Cut the first dimension so that one piece holds about PIECE elements."""
    rows = tensor.shape[0] if tensor.dim() else 1
    step = max(1, rows * PIECE // max(1, tensor.numel()))
    for start in range(0, rows, step):
        yield slice(start, start + step)


def part(tensor: Tensor, rows: slice) -> Tensor:
    """Return some rows; a tensor without dimensions, or with one row for all, is its own part."""
    return tensor[rows] if tensor.dim() and tensor.shape[0] > 1 else tensor


OWN_ERRORS, LINE_ERRORS = 6, 8
"""How often eager's error at an element, and its rms error along a row or column, an honest kernel may be off."""


def allowed(known: Truth, rows: slice) -> Tensor:
    """Return how far each element of some rows may be from the interval between eager and the oracle."""
    dtype = known.eager.dtype
    relative = known.relative
    floor = float(torch.finfo(dtype).tiny) if dtype not in (torch.float16,) else 2.0**-23
    error = _error(known, rows)
    result = relative * part(known.oracle, rows).abs() + (relative / 2 * known.scale + floor) + OWN_ERRORS * error
    if known.lines:
        result = result + LINE_ERRORS * torch.stack([part(line, rows).expand_as(error) for line in known.lines]).amax(0)
    return result


def _real(dtype: torch.dtype) -> torch.dtype:
    return {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)


def _error(known: Truth, rows: slice) -> Tensor:
    """Return eager's distance to the oracle, or the probe's where that is larger."""
    oracle, eager = part(known.oracle, rows), widen(part(known.eager, rows))
    # Where the two disagree grossly without the probe confirming it (a mask value taken from finfo), the
    # disagreement says nothing about rounding: between the two is right, far outside is not.
    ceiling = 0.05 * (torch.minimum(oracle.abs(), eager.abs()) + known.scale)
    error = torch.minimum((eager - oracle).abs(), ceiling)
    if known.probe is not None:
        error = torch.maximum(error, (part(known.probe, rows) - oracle).abs())
    return torch.nan_to_num(error, nan=0.0, posinf=0.0)


def _scale(values: Tensor) -> float:
    """Return the size of a typical element: a few huge ones (masked logits) must not speak for all."""
    size = values.abs()
    if size.numel() > PIECE:
        size = size.reshape(-1)[:: size.numel() // PIECE + 1]
    size = size[torch.isfinite(size) & (size > 0)]
    if not size.numel():
        return 0.0
    typical = size.reshape(-1)[:: size.numel() // 2**20 + 1].quantile(0.25)
    return float(torch.minimum(size.square().mean().sqrt(), 10 * typical))


def _lines(known: Truth) -> tuple[Tensor, ...]:
    """Return the rms error along every dimension: one extreme row or column makes its neighbours inexact too."""
    shape = known.oracle.shape
    if known.oracle.numel() < 2:
        return ()
    dims = [d for d in range(len(shape)) if shape[d] > 1]
    first: Tensor | None = None
    others: dict[int, list[Tensor]] = {d: [] for d in dims if d}
    for rows in pieces(known.oracle):
        square = _error(known, rows).square()
        if 0 in dims:
            total = square.sum(0, keepdim=True)
            first = total if first is None else first + total
        for d, found in others.items():
            found.append(square.mean(d, keepdim=True).sqrt())
    lines = [torch.cat(found) for found in others.values()]
    return tuple(lines if first is None else [(first / shape[0]).sqrt(), *lines])
