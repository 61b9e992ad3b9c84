"""What a GPU's verdict takes over from the interpreter's trace, and what it does not."""

from __future__ import annotations

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from verifier.checks.second_look import check
from verifier.errors import VerificationError
from verifier.trial import Failed, Trial
from verifier.verdict import Check, Verdict

Steps = Generator[Check | Verdict, None, None]


def looked(*steps: Check | Verdict | Exception) -> tuple[Check, Trial, list[str]]:
    """Look at these steps; return the row, the trial, and what was done at the end."""
    ended: list[str] = []

    def judged() -> Steps:
        try:
            for step in steps:
                if isinstance(step, Exception):
                    raise step
                yield step
        finally:
            ended.append("closed")

    nothing: Any = SimpleNamespace()
    trial = Trial(nothing, "", nothing, nothing, None, "cuda", 1.0)
    return check(trial, judged()), trial, ended


def test_the_memory_row_is_taken_over_and_the_rest_is_not_waited_for() -> None:
    """The row says on which problem the addresses were traced; the other judgement ends there."""
    row, _, ended = looked(Check("size", "warn", "x 4096 -> 64"), Check("memory", "pass", "in bounds"), Verdict("fail"))
    assert row == Check("memory", "pass", "in bounds (interpreter, x 4096 -> 64)")
    assert ended == ["closed"]


def test_undefined_lanes_are_a_warning_here_too() -> None:
    """The GPU may have shown nothing of it."""
    row, trial, _ = looked(Check("memory", "warn", "line 9: masked lanes"))
    assert row.outcome == "warn" and trial.warnings == ["line 9: masked lanes"]


@pytest.mark.parametrize("code", ["out_of_bounds", "race"])
def test_what_the_trace_proves_fails_the_kernel(code: str) -> None:
    """An address outside of every tensor is wrong on any device."""
    with pytest.raises(Failed) as failed:
        looked(Verdict("fail", code, "what happened"))
    assert (failed.value.code, failed.value.message) == (code, "what happened")


@pytest.mark.parametrize("step", [Verdict("fail", "value_mismatch"), Verdict("cannot_verify", "not_interpretable"),
                                  VerificationError("too_large", "too large to interpret")])  # fmt: skip
def test_what_the_interpreter_cannot_do_is_not_held_against_the_kernel(step: Any) -> None:
    """Values were judged on the GPU, where they count."""
    row, trial, _ = looked(step)
    assert row.outcome == "pass" and "not traced" in row.detail and not trial.warnings
