"""Which other values and sizes a problem admits: each is tried on the reference, and kept where it makes sense."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from verifier import cases, layouts, variations
from verifier.cases import Case
from verifier.compare import Expected
from verifier.degenerate import null_candidates
from verifier.errors import VerificationError
from verifier.ops import heavy

if TYPE_CHECKING:
    from verifier.truth import Reference

# With ties these may return any of several right answers.
AMBIGUOUS_TIES = frozenset(
    """
    topk sort argsort msort median nanmedian mode kthvalue unique multinomial
    """.split()
)

# Rounded values tie, the special ones are there several times, and large logits underflow to equal zeros in a softmax.
MAKE_TIES = ("ties", "special", "large")

VALUE_LABELS = {
    "large": "values x100",
    "special": "zeros, ±89, ±1e4 among the values",
    "negated": "negated values",
    "ties": "values with ties",
    "tiny": "values x0.001",
}


def admitted(reference: Reference, budget: float) -> list[Case]:
    """Return the given inputs, twice seeded, then the variations that the reference accepts."""
    deadline = time.monotonic() + budget
    first = reference.first_case
    kept = [first, Case(_seed(reference, 1), label="given inputs, another seed")]
    scout = _scout(reference)
    if scout is None:
        return kept
    base = scout.expected(scout.first_case)
    for ways in _proposals(reference):
        for case in ways:
            if time.monotonic() > deadline:
                reference.notes.append("not every variation of the inputs was tried: the module is slow")
                return kept
            # a scout that is smaller admits sizes beyond a limit of the module's
            if _sensible(scout, case, base) and _answer(reference, case) is not None:
                kept.append(case)
                break
    return kept


def _scout(reference: Reference) -> Reference | None:
    """Return who may try: on a GPU an index out of range would end the context, so a small twin tries on the CPU."""
    if reference.device == "cpu":
        return reference
    try:
        return type(reference).open(reference.problem, "cpu", reference.seed)
    except VerificationError:
        return None


def _answer(reference: Reference, case: Case) -> Expected | None:
    """Return what the module gives for a case; None where it refuses it."""
    try:
        return reference.expected(case)
    except VerificationError:
        return None


def _seed(reference: Reference, number: int) -> int:
    return cases.derive(reference.seed, "case", number)


def _proposals(reference: Reference) -> Iterator[list[Case]]:
    """Yield each variation with its alternatives; sizes and values take turns, so that a small budget sees both."""
    given = reference.expected(reference.first_case).given
    shapes = [tuple(tensor.shape) for tensor in given]
    sizes = [
        [Case(_seed(reference, 10 + n), sizes=way.sizes, label=way.words) for way in ways]
        for n, ways in enumerate(variations.size_rules(shapes, long=not heavy(reference.ops)))
    ]
    values = [
        [Case(_seed(reference, 30 + n), values=name, label=label)]
        for n, (name, label) in enumerate(VALUE_LABELS.items())
        if name not in MAKE_TIES or not AMBIGUOUS_TIES.intersection(reference.ops)
    ]
    if not any(tensor.is_floating_point() for tensor in given):
        values = []
    for turn in range(max(len(sizes), len(values))):
        yield from sizes[turn : turn + 1]
        yield from values[turn : turn + 1]
    for n, layout in enumerate(layouts.possible(given)):
        yield [Case(_seed(reference, 50 + n), layout=layout, label=f"{layout} inputs")]


def _sensible(reference: Reference, case: Case, base: Expected) -> bool:
    """Accept a case that runs, stays finite, keeps the structure and can tell right from nothing."""
    got = _answer(reference, case)
    if got is None or got.outputs.spec != base.outputs.spec:
        return False
    if not any(known.eager.numel() for known in got.outputs.truths):
        return False
    return (not _finite(base) or _finite(got)) and (bool(null_candidates(base)) or not null_candidates(got))


def _finite(expected: Expected) -> bool:
    truths = [known for known in expected.outputs.truths if not known.exact]
    return all(bool(torch.isfinite(known.eager).all()) and bool(torch.isfinite(known.oracle).all()) for known in truths)
