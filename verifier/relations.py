"""What a wrong result is to the right one as a whole: transposed, shifted, repeated, off by a factor for each row."""

from __future__ import annotations

import torch
from torch import Tensor


def relation(want: Tensor, have: Tensor) -> str:
    """Describe how all of `have` follows from `want`, or return an empty string; both in float64."""
    if want.numel() < 4 or not bool(torch.isfinite(have).all() and torch.isfinite(want).all()):
        return ""
    return _transposed(want, have) or _repeated(want, have) or _shifted(want, have) or _by_lines(want, have)


def near(have: Tensor, want: Tensor) -> bool:
    """Tell whether two tensors are the same up to rounding."""
    return bool(((have - want).abs() <= 1e-4 * (want.abs() + want.abs().mean())).all())


def _transposed(want: Tensor, have: Tensor) -> str:
    if want.dim() < 2 or 1 in want.shape[-2:]:
        return ""
    rows, columns = want.shape[-2:]
    if rows == columns and near(have.transpose(-1, -2), want):
        return "the last two dimensions are transposed"
    written = have.reshape(*want.shape[:-2], columns, rows).transpose(-1, -2)
    if rows != columns and near(written, want):
        return f"it is written in the layout of its transpose, {columns}x{rows}"
    return ""


def _repeated(want: Tensor, have: Tensor) -> str:
    for dim, size in enumerate(want.shape):
        first, rest = have.narrow(dim, 0, 1), want.narrow(dim, 0, 1)
        if size > 1 and near(have, first.expand_as(have)) and not near(want, rest.expand_as(want)):
            return f"every index of dimension {dim} has the result of the first"
    return ""


def _shifted(want: Tensor, have: Tensor) -> str:
    for dim, size in enumerate(want.shape):
        if size < 4:
            continue
        for by, start, other in ((1, 0, 1), (-1, 1, 0)):
            moved, original = have.narrow(dim, start, size - 1), want.narrow(dim, other, size - 1)
            if near(moved, original):
                return f"shifted by one in dimension {dim}: index {max(0, -by)} has what belongs to {max(0, by)}"
    return ""


def _by_lines(want: Tensor, have: Tensor) -> str:
    """One factor or one offset for every line along a dimension, and another for the next line."""
    if want.dim() < 2 or bool((want == 0).any()):
        return ""
    for dim, size in reversed(list(enumerate(want.shape))):
        if size < 3:
            continue
        if _constant(have / want, dim):
            return f"off by a factor that is the same along dimension {dim} (a missing division or weight?)"
        if _constant(have - want, dim):
            return f"off by a number that is the same along dimension {dim} (a missing mean or bias?)"
    return ""


def _constant(values: Tensor, dim: int) -> bool:
    middle = values.median(dim, keepdim=True).values
    return bool(((values - middle).abs() <= 1e-3 * middle.abs()).all())


def period(wrong: Tensor) -> str:
    """Say that the wrong elements follow one another at a fixed distance, or return an empty string."""
    places = wrong.reshape(-1).nonzero()[:, 0]
    if len(places) < 4:
        return ""
    steps = places.diff()
    step = int(steps[0])
    if step < 2 or bool((steps != step).any()) or int(places[-1]) + step < wrong.numel():
        return ""
    suffix = {2: "nd", 3: "rd"}.get(step, "th")
    return f"every {step}{suffix} element, from element {int(places[0])} on"
