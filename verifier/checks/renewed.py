"""Does it use the parameters that it has now? They change after the first calls: in training, by load_state_dict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from verifier import compare
from verifier.checks import parameters
from verifier.trial import Failed, Trial
from verifier.truth import Reference
from verifier.verdict import Check


def check(trial: Trial, renewed: Reference | None) -> Iterator[Check]:
    """Give the instance that was called before other parameters, and judge one more call; yield no row without any."""
    if renewed is None:
        return
    there = replace(trial, reference=renewed)
    parameters.check(there)
    call = there.call(renewed.first_case)
    parameters.check(trial)
    finding = compare.compare(renewed.expected(renewed.first_case), call.outputs)
    if finding is not None:
        raise Failed(
            "cheat",
            f"cached_result: wrong once the parameters change (training, load_state_dict): {finding.message}",
        )
    yield Check("other parameters", "pass", "changed after the first calls")
