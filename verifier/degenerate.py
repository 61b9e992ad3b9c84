"""Problems that prove little: the output hardly depends on the input, or nothing at all would pass."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from verifier import cases
from verifier.compare import Expectation, Expected, compare
from verifier.errors import VerificationError
from verifier.tree import Tree

if TYPE_CHECKING:
    from verifier.truth import Reference


def warnings(reference: Reference) -> list[str]:
    """Say what a kernel could get away with on this problem."""
    first = reference.expected(reference.first_case)
    found = []
    passing = null_candidates(first)
    if passing:
        found.append(f"degenerate problem: a kernel that returns {passing[0]} would pass on the given inputs")
    if _constant(reference, first):
        found.append("degenerate problem: the output does not depend on the input")
    return found


def null_candidates(expected: Expected) -> list[str]:
    """Return which answers without any work would be accepted: zeros, one value everywhere."""
    outputs = expected.outputs
    if not any(known.eager.numel() for known in outputs.truths):
        return []
    zeros = tuple(torch.zeros_like(known.eager) for known in outputs.truths)
    fills = tuple(torch.full_like(known.eager, _middle(known.eager)) for known in outputs.truths)
    several = any(known.eager.numel() > 1 for known in outputs.truths)
    found = []
    if _passes(expected, zeros):
        found.append("zeros")
    elif several and _passes(expected, fills):
        found.append("one value everywhere")
    return found


def _passes(expected: Expected, tensors: tuple[torch.Tensor, ...]) -> bool:
    return compare(expected, Tree(expected.outputs.spec, tensors)) is None


def _middle(values: torch.Tensor) -> float:
    if values.dtype == torch.bool or not values.numel():
        return 0.0
    flat = values.double() if not values.is_complex() else values.real.double()
    finite = flat[torch.isfinite(flat)]
    return float(finite.median()) if finite.numel() else 0.0


def _constant(reference: Reference, first: Expected) -> bool:
    """Compare with another draw, or with negated inputs where get_inputs always gives the same."""
    for other in (replace(reference.first_case, seed=cases.derive(reference.seed, "other")),
                  replace(reference.first_case, values="negated")):  # fmt: skip
        try:
            second = reference.expected(other)
        except VerificationError:
            continue
        pairs = zip(first.given, second.given, strict=False)
        if all(a.shape == b.shape and torch.equal(a, b) for a, b in pairs):
            continue
        return _equal(first.outputs, second)
    return False


def _equal(outputs: Expectation, second: Expected) -> bool:
    tensors = tuple(known.eager for known in outputs.truths)
    return bool(tensors) and compare(second, Tree(outputs.spec, tensors)) is None
