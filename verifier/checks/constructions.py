"""Is it right for this one configuration only? The module is built with other arguments and in its other mode.

What the file was written for is verified already, so a kernel that holds to its configuration is warned about, and one
that refuses others is not even that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from verifier import compare
from verifier.checks import parameters
from verifier.constructions import Construction
from verifier.trial import Failed, Trial
from verifier.verdict import Check

SLOW = 2.0
"""Seconds of one interpreted call beyond which nobody waits for other builds."""


def check(trial: Trial, ways: list[Construction]) -> Iterator[Check]:
    """Build and call once for every way; yield no row where there is none."""
    followed, refused, ignored, untried = [], [], [], []
    for way in ways:
        if trial.cpu and trial.first_seconds > SLOW:
            untried.append(way.label)
            continue
        try:
            wrong = _wrong(trial, way)
        except Failed as failure:
            if failure.code in ("timeout", "memory_limit"):  # another build may be more work than there is time for
                untried.append(way.label)
                break  # the process is gone
            if failure.code in ("cheat", "crash", "process_exit"):
                raise
            refused.append(way.label)
            continue
        if wrong:
            ignored.append(way.label)
            trial.warn(f"right only for the constructor's arguments and the mode given: {way.label}: {wrong}")
        else:
            followed.append(way.label)
    if ways:
        parts = [*followed, *(f"refuses {label}" for label in refused), *(f"wrong: {label}" for label in ignored)]
        parts += [f"too much to try here: {label}" for label in untried]
        yield Check("other builds", "warn" if ignored else "pass", ", ".join(parts))


def _wrong(trial: Trial, way: Construction) -> str:
    """Return what is wrong with the result when built that way; raise Failed where it does not run."""
    other = way.reference
    request = {"do": "rebuild", "source": other.problem.source, "seed": other.init_seed, "training": way.training}
    answer, _ = trial.ask(request)
    there = replace(trial, reference=other, state=answer["state"])
    parameters.check(there)
    expected = other.expected(other.first_case)
    call = there.call(other.first_case)
    finding = compare.compare(expected, call.outputs)
    return finding.message.partition(" ([")[0] if finding else ""  # without the examples
