"""Problems that prove little: the output hardly depends on the input, or nothing at all would pass."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from verifier import cases
from verifier.compare import Expectation, Expected, accuracy, compare
from verifier.errors import VerificationError
from verifier.tree import Tree

if TYPE_CHECKING:
    from verifier.truth import Reference


ROUNDING = 0.01
"""Where eager itself is further than this from the oracle (a batch norm over two numbers), hardly anything is wrong."""


DECIDES = "rounding decides"


def warnings(reference: Reference) -> list[str]:
    """Say what a kernel could get away with on this problem."""
    first = reference.expected(reference.first_case)
    found = []
    passing = null_candidates(first)
    if passing:
        found.append(f"degenerate problem: a kernel that returns {passing[0]} would pass on the given inputs")
    if _constant(reference, first):
        found.append("degenerate problem: the output does not depend on the input")
    own = own_error(first)
    if own > ROUNDING:
        found.append(f"degenerate problem: {DECIDES}, PyTorch's own result is off by {own * 100:.0f} %")
    return found


def own_error(expected: Expected) -> float:
    """Return eager's largest relative distance to the oracle, in units that make half types comparable to float32."""
    measured = accuracy(expected, Tree(expected.outputs.spec, tuple(known.eager for known in expected.outputs.truths)))
    floats = [torch.finfo(t.eager.dtype).eps for t in expected.outputs.truths if t.eager.is_floating_point()]
    if measured is None or not floats:
        return 0.0
    return max(measured.eager_max_rel - 8 * max(floats), 0.0)


def null_candidates(expected: Expected) -> list[str]:
    """Return which answers without any work would be accepted: zeros, one value everywhere."""
    outputs = expected.outputs
    if not any(known.eager.numel() for known in outputs.truths):
        return []
    zeros = tuple(torch.zeros_like(known.eager) for known in outputs.truths)
    fills = [
        tuple(torch.full_like(known.eager, middle(known.eager)) for known in outputs.truths)
        for middle in (_median, _mean)
    ]
    several = any(known.eager.numel() > 1 for known in outputs.truths)
    found = []
    if _passes(expected, zeros):
        found.append("zeros")
    elif several and any(_passes(expected, fill) for fill in fills):
        found.append("one value everywhere")
    return found


def _passes(expected: Expected, tensors: tuple[torch.Tensor, ...]) -> bool:
    return compare(expected, Tree(expected.outputs.spec, tensors)) is None


def _median(values: torch.Tensor) -> float:
    finite = _finite(values)
    return float(finite.median()) if finite.numel() else 0.0


def _mean(values: torch.Tensor) -> float:
    """What a uniform answer gives, such as 1/n for every element of a softmax."""
    finite = _finite(values)
    return float(finite.mean()) if finite.numel() else 0.0


def _finite(values: torch.Tensor) -> torch.Tensor:
    if values.dtype == torch.bool:
        return torch.empty(0, dtype=torch.float64)
    flat = values.double() if not values.is_complex() else values.real.double()
    return flat[torch.isfinite(flat)]


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
