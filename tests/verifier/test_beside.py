"""Further children beside the first find what it would find, in the same order, and end with the verdict."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from tests.verifier.conftest import Judge
from tests.verifier.kernels import PROBLEM, RIGHT, spoiled, with_forward
from verifier.beside import Baton, Later
from verifier.trial import Failed, Trial
from verifier.verdict import Check

FIRST_SHAPE = with_forward(
    "self.work = getattr(self, 'work', None)\n"
    "if self.work is None:\n    self.work = torch.zeros_like(x)\n"
    "self.work.view(-1)[: x.numel()] = self.launch(x).reshape(-1)[: self.work.numel()]\n"
    "return self.work.view(-1)[: x.numel()].clone().view(x.shape)"
)
WRONG = {
    "wrong_for_other_sizes": spoiled(("[(triton.cdiv(x.numel(), 64),)]", "[(3,)]"), ("empty_like", "zeros_like")),
    "value_mismatch": spoiled(("0.2 * z", "0.3 * z")),
    "cheat": with_forward("self.calls = getattr(self, 'calls', 0) + 1\nreturn self.launch(x)"),
}


def test_same_rows_in_the_same_order(judge: Judge) -> None:
    """Who tried what does not show in the table."""
    alone, together = judge(PROBLEM, RIGHT, beside=False, seed=3), judge(PROBLEM, RIGHT, beside=True, seed=3)

    def without_times(rows: tuple[Check, ...]) -> list[Check]:
        return [replace(row, detail="") if row.name == "repeatable" else row for row in rows]

    assert together.passed and together.warnings == alone.warnings
    assert without_times(together.checks) == without_times(alone.checks)


@pytest.mark.parametrize("code", WRONG)
def test_wrong_kernels_are_named_alike(judge: Judge, code: str) -> None:
    """A failure has its code whichever child meets it."""
    for beside in (False, True):
        verdict = judge(PROBLEM, WRONG[code], beside=beside)
        assert (verdict.outcome, verdict.code) == ("fail", code), (beside, verdict.message)


@pytest.mark.parametrize("beside", [False, True])
def test_what_the_first_call_leaves_behind_meets_other_sizes(judge: Judge, beside: bool) -> None:
    """A buffer of the first shape that is kept is found out, although another child tries the sizes."""
    verdict = judge(PROBLEM, FIRST_SHAPE, beside=beside)
    assert verdict.outcome == "fail" or any("sizes given" in text for text in verdict.warnings), verdict.message


def test_a_failure_ends_the_others_at_once(judge: Judge) -> None:
    """Nobody waits for another size that hangs when the first child has failed already."""
    hangs = with_forward("""
if x.shape != (5, 37):
    while True:
        pass
return self.launch(x) + (x.abs().max() > 20)""")
    began = time.monotonic()
    verdict = judge(PROBLEM, hangs, beside=True)
    assert (verdict.outcome, verdict.code) == ("fail", "value_mismatch"), verdict.message
    assert time.monotonic() - began < 15  # a call may take 25


def test_a_hang_beside_is_a_timeout(judge: Judge) -> None:
    """A child that hangs while it tries a size is stopped, and the size is named."""
    hangs = with_forward("if x.shape != (5, 37):\n    while True:\n        pass\nreturn self.launch(x)")
    verdict = judge(PROBLEM, hangs, beside=True, seconds=3.0)
    assert (verdict.outcome, verdict.code) == ("fail", "timeout") and "size" in verdict.message


def test_only_the_holder_of_the_baton_thinks() -> None:
    """While the main thread thinks, another waits; while it waits, the other goes on."""
    baton, seen = Baton(), []

    def other() -> None:
        with baton.held():
            seen.append("other")

    thread = threading.Thread(target=other)
    thread.start()
    time.sleep(0.05)
    assert seen == []
    with baton.down():
        thread.join(5)
    assert seen == ["other"]


def test_rows_bring_their_warnings_and_failures(trial: Trial) -> None:
    """What was found elsewhere is said when its turn comes, not before."""

    def work(there: Trial) -> list[Check]:
        there.warn("odd")
        raise Failed("race", "seen")

    later = Later(work, trial)
    later.make()
    assert trial.warnings == []
    with pytest.raises(Failed, match="seen"):
        list(later.rows(trial))
    assert trial.warnings == ["odd"]


@pytest.fixture
def trial() -> Trial:
    """A trial that nothing is asked of."""
    nothing: object = None
    return Trial(PROBLEM, RIGHT, nothing, nothing, None, "cpu", 1.0)  # type: ignore[arg-type]
