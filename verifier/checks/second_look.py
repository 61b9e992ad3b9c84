"""On a GPU nobody sees addresses: the interpreter traces the same kernel again, on a problem small enough for it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from verifier.errors import VerificationError
from verifier.trial import Failed, Trial
from verifier.verdict import Check, Verdict

TRACED = ("out_of_bounds", "race")
"""What the trace proves by itself. Everything else has been judged on the GPU, where it counts."""


def check(trial: Trial, steps: Generator[Check | Verdict, None, None]) -> Check:
    """Follow a judgement without a GPU as far as its memory row, and take that over."""
    smaller = ""
    try:
        with closing(steps):
            for step in steps:
                if isinstance(step, Verdict):
                    if step.code in TRACED:
                        raise Failed(step.code, step.message)
                    return guarded("the interpreter cannot run this kernel")
                if step.name == "size":
                    smaller = f", {step.detail}"
                if step.name == "memory":
                    if step.outcome == "warn":
                        trial.warn(step.detail)
                    return Check("memory", step.outcome, f"{step.detail} (interpreter{smaller})")
    except VerificationError as why:
        return guarded(why.message)
    return guarded("the interpreter gave no answer")


def guarded(untraced: str = "") -> Check:
    """Return the row for guard bands that stayed whole; `untraced` says why there is no more than that."""
    more = f"; addresses are not traced: {untraced}" if untraced else ""
    return Check("memory", "pass", f"nothing is written beside a tensor{more}")
