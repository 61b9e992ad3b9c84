"""Where a result is wrong, in words that point at the cause: the tail, some rows, a scale, half precision."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from verifier.relations import near, period, relation
from verifier.tolerance import Truth, widen

MOST = 0.8
"""Share of wrong elements from which on the whole result is looked at; below it, where they are says more."""


def where(wrong: Tensor, known: Truth, got: Tensor, given: tuple[Tensor, ...] = ()) -> str:
    """Describe the wrong elements: their share, the first of them, and the pattern if there is one."""
    flat = wrong.reshape(-1)
    count, total = int(flat.sum()), flat.numel()
    places = flat.nonzero()[:3, 0].tolist()
    first = "; ".join(_example(place, known, got) for place in places)
    found = pattern(wrong, known, got, given)
    return f"{_share(count, total)} of elements wrong{', ' + found if found else ''} ({first})"


def _share(count: int, total: int) -> str:
    if count == total:
        return f"all {total}"
    percent = 100 * count / total
    text = f"{percent:.2g}" if percent < 10 else f"{min(percent, 99):.0f}"
    return f"{count} of {total}" if total < 1000 else f"{count} of {total} ({text} %)"


def _example(place: int, known: Truth, got: Tensor) -> str:
    index = ", ".join(map(str, _unravel(place, tuple(got.shape))))
    want, have = known.eager.reshape(-1)[place].item(), got.reshape(-1)[place].item()
    return f"[{index}] should be {_number(want)}, is {_number(have)}"


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _unravel(place: int, shape: tuple[int, ...]) -> list[int]:
    index = []
    for size in reversed(shape):
        place, at = divmod(place, size)
        index.append(at)
    return index[::-1]


def pattern(wrong: Tensor, known: Truth, got: Tensor, given: tuple[Tensor, ...] = ()) -> str:
    """Name the pattern of the wrong elements, or return an empty string: the whole result first, then places."""
    want, have = widen(known.oracle), widen(got)
    whole = _of_value(want, have, wrong)
    if whole:
        return whole
    place = _of_place(wrong) or period(wrong) or _of_input(wrong, given)
    unwritten = "all of them zero" if bool((have[wrong] == 0).all()) else ""
    return ", ".join(filter(None, (place, unwritten)))


def _of_place(wrong: Tensor) -> str:
    flat = wrong.reshape(-1)
    if bool(flat.all()):
        return ""
    start = int(flat.nonzero()[0, 0])
    if start > flat.numel() // 50 and bool(flat[start:].float().mean() > 0.9):
        row, rest = divmod(start, wrong.shape[-1])
        place = f", from row {row} on" if wrong.dim() > 1 and not rest else ""
        return f"only the tail: everything right before element {start} of {flat.numel()}{place}"
    for dim, size in enumerate(wrong.shape):
        if size < 2:
            continue
        others = [d for d in range(wrong.dim()) if d != dim]
        hit = wrong.any(dim=others) if others else wrong
        indices = hit.nonzero()[:, 0]
        first, last = int(indices[0]), int(indices[-1])
        if len(indices) == last - first + 1 < size:
            name = f"dimension {dim}"
            if last == size - 1:
                return f"only from index {first} on in {name} (size {size})"
            if first == 0:
                return f"only up to index {last} in {name} (size {size})"
            span = f"index {first}" if first == last else f"indices {first} to {last}"
            return f"only {span} of {name}"
    return ""


def _of_value(want: Tensor, have: Tensor, wrong: Tensor) -> str:
    if want.is_complex() or not want.is_floating_point():
        return ""
    finite = torch.isfinite(have) & torch.isfinite(want)
    if not bool(finite[wrong].any()):
        return ""
    if bool((have == 0).all()):
        return "the output is all zeros"
    if have.numel() > 1 and bool((have == have.reshape(-1)[0]).all()):
        return "every element has the same value"
    if bool(finite.all()) and near(have, -want):
        return "the sign is flipped"
    ratio = _ratio(want, have, finite)
    if ratio is not None and abs(ratio - 1) > 1e-4:
        return f"off by a constant factor of {ratio:.6g} (a missing scale?)"
    offset = _offset(want, have, finite)
    if offset is not None:
        return f"off by a constant {offset:.6g} (a missing bias?)"
    return relation(want, have) if float(wrong.double().mean()) > MOST else ""


def _ratio(want: Tensor, have: Tensor, finite: Tensor) -> float | None:
    usable = finite & (want.abs() > 0.1 * want[finite].abs().mean())
    if int(usable.sum()) < 4:
        return None
    ratios = have[usable] / want[usable]
    middle = float(ratios.median())
    spread = float((ratios - middle).abs().max())
    return middle if math.isfinite(middle) and spread <= 1e-4 * abs(middle) else None


def _offset(want: Tensor, have: Tensor, finite: Tensor) -> float | None:
    difference = (have - want)[finite]
    middle = float(difference.median()) if difference.numel() >= 4 else 0.0
    return middle if middle and float((difference - middle).abs().max()) <= 1e-3 * abs(middle) else None


def _of_input(wrong: Tensor, given: tuple[Tensor, ...]) -> str:
    for number, value in enumerate(given):
        if value.shape != wrong.shape or not value.is_floating_point() or bool(wrong.all()):
            continue
        value = value.to(wrong.device)
        for words, holds in (("< 0", value < 0), ("> 0", value > 0), ("== 0", value == 0)):
            if bool(holds.all()):
                continue  # it holds everywhere, so it says nothing
            if bool((wrong <= holds).all()) and float(wrong.sum()) >= 0.5 * float(holds.sum()):
                return f"only where input {number} {words}"
        low_right, high_right = float(value[~wrong].abs().max()), float(value[wrong].abs().min())
        if high_right > low_right:
            return f"only where |input {number}| > {low_right:.3g}"
    return ""


def looks_rounded(known: Truth, got: Tensor) -> str:
    """Say which lower precision would explain the errors, or return an empty string.

    Rounding noise is small, everywhere, and does not follow the value; a wrong formula's error does.
    """
    if known.eager.dtype not in (torch.float32, torch.float64) or got.numel() < 16:
        return ""
    want, have = known.oracle.reshape(-1), got.reshape(-1).double()
    keep = torch.isfinite(want) & torch.isfinite(have) & (want != 0)
    want, error = want[keep], (have - known.oracle.reshape(-1))[keep]
    if want.numel() < 16:
        return ""
    size = float(want.square().mean().sqrt())
    noise = float(error.square().mean().sqrt()) / size if size else 0.0
    if not 1e-6 < noise < 3e-2 or float((error != 0).double().mean()) < 0.5:
        return ""
    ordered = error[want.argsort()]
    smooth = float((ordered[1:] * ordered[:-1]).sum() / ordered.square().sum())
    follows = abs(float((error * want).sum() / (error.norm() * want.norm())))
    if smooth > 0.4 or follows > 0.5:
        return ""
    kind = "bf16" if noise > 1.5e-3 else "fp16 or TF32" if noise > 2e-5 else "a short accumulator"
    return f"errors of {noise:.1e} of the output's size, as {kind} arithmetic makes them"
