"""Does it go on giving the same answer? Many calls on one instance show noise, laziness and old results."""

from __future__ import annotations

from dataclasses import asdict

from verifier.trial import Failed, Trial
from verifier.verdict import Check

TIMES = 16
SECONDS = 0.4


def check(trial: Trial) -> Check:
    """Call the first case again and again, then judge its values once more."""
    from verifier.checks import values

    case = trial.reference.first_case
    answer, _ = trial.ask({"do": "repeat", "case": asdict(case), "times": TIMES, "seconds": SECONDS})
    digests, launched = answer["digests"], answer["launched"]
    if trial.first is not None and trial.first.launches and not all(launched):
        number = next(at for at, count in enumerate(launched) if not count) + 1
        raise Failed("cheat", f"cached_result: call {number} of the same inputs launches no kernel")
    values.one(trial, case)
    if len(set(digests)) > 1:
        if trial.cpu:
            raise Failed("nondeterministic", "the same inputs, parameters and seed give different results")
        trial.warn("results differ from call to call within the tolerance (atomics?)")
        return Check("repeatable", "warn", f"{len(digests)} calls, not bit for bit")
    return Check("repeatable", "pass", f"{len(digests)} calls, bit for bit")
