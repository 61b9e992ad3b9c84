"""Do lanes that a mask switched off leak into the result? Without `other` the language does not define them."""

from __future__ import annotations

from verifier.checks import values
from verifier.trial import Failed, Trial
from verifier.verdict import Check


def check(trial: Trial) -> Check:
    """Run once with NaN in such lanes; skip where every masked load says what they hold."""
    if trial.first is None or trial.first.answer.get("undefined_line") is None:
        return Check("memory", "pass", "in bounds, no races")
    line = trial.first.answer["undefined_line"]
    case = trial.reference.first_case
    try:
        values.judge(trial, case, trial.call(case, fill=True))
    except Failed:
        text = (
            f"line {line}: the result depends on masked lanes of a load without `other`, which Triton leaves undefined"
        )
        trial.warn(text)
        return Check("memory", "warn", text)
    return Check("memory", "pass", "in bounds, no races")
