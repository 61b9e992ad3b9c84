"""What the clocks' answers become: rows of the table and the trial's timing. The children are played by scripts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from verifier.cases import Case
from verifier.checks.speed import Clocks
from verifier.checksums import checksums
from verifier.problem import Problem
from verifier.trial import Failed, Trial
from verifier.verdict import Check

READY = {"ok": True}
SUMS = checksums(torch.tensor([1.0, 2.0]))
LARGE, SMALL = Problem("large", "Model"), Problem("small", "Model")


def measured(**milliseconds: float) -> dict[str, Any]:
    """What a clock answers when nothing is wrong."""
    times = {name: [value] * 9 for name, value in milliseconds.items()}
    return {
        "ok": True, "times": times, "late": {}, "samples": [[1.0, 2.0]], "expected": [1.0, 2.0], "power": "",
        "sums": SUMS, "expected_sums": SUMS,
        "moved": 10, "written": 10, "flops": 0, "precision": "float32",
    }  # fmt: skip


class Script:
    """A child that answers what it was told to, in this order, and keeps what it was sent.

    Before it answers what it measured it says that the kernel is built, and is told to begin.
    """

    def __init__(self, *answers: dict[str, Any] | None) -> None:
        self.answers, self.sent, self.closed = [], [], False  # type: tuple[list[Any], list[Any], bool]
        for answer in answers:
            self.answers += [{"built": True}, answer] if answer and "times" in answer else [answer]
        self.channel = SimpleNamespace(ended=True)

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def receive(self, _: float) -> dict[str, Any] | None:
        return self.answers.pop(0)

    def kill(self) -> str:
        return "exit 1"

    def output(self) -> str:
        return "what it printed"

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "some GPU")


def trial(tmp_path: Path, verified: Problem = LARGE) -> Trial:
    """A trial of which only what the clocks look at is real."""
    reference: Any = SimpleNamespace(
        problem=verified,
        folder=tmp_path,
        init_seed=1,
        parameter_seed=2,
        first_case=Case(3),
        random=False,
        degenerate=False,
    )
    process: Any = None
    return Trial(LARGE, "the kernel", reference, process, None, "cuda", 1.0, scratch="/scratch")


def checks(judged: Trial, children: list[Script], baseline: str = "both") -> Iterator[Check]:
    """Run the clocks with these children."""
    waiting = iter(children)
    nursery: Any = SimpleNamespace(spawn=lambda _: next(waiting))
    with ExitStack() as stack:
        clocks = Clocks(judged, nursery, baseline, stack, {})
        yield clocks.quick()
        yield from clocks.whole()


def test_the_problem_is_sent_at_once_and_the_kernel_when_it_is_verified(tmp_path: Path) -> None:
    """The child makes the problem ready while the kernel is judged: it must not have the kernel yet."""
    child, judged = Script(READY, measured(eager=2.0, kernel=1.0)), trial(tmp_path)
    with ExitStack() as stack:
        nursery: Any = SimpleNamespace(spawn=lambda _: child)
        clocks = Clocks(judged, nursery, "eager", stack, {})
        assert [message["source"] for message in child.sent] == ["large"]
        assert clocks.quick().detail == "2.00x faster than eager, ±1 %"
        assert list(clocks.whole()) == []
    assert child.sent[1]["kernel"] == "the kernel" and child.sent[1]["compiled"] == "/scratch"
    assert list(child.sent[2]) == ["budget"]
    assert child.closed


def test_all_three_come_from_one_run_in_the_end(tmp_path: Path) -> None:
    """The quick run says how it is against eager; the run with torch.compile then replaces its numbers."""
    quick = Script(READY, measured(eager=2.0, kernel=1.0))
    whole = Script(READY, measured(eager=2.2, compile=1.65, kernel=1.1))
    judged = trial(tmp_path)
    rows = list(checks(judged, [quick, whole]))
    assert [row.name for row in rows] == ["speed", "speed", "torch.compile"]
    assert rows[-1].detail == "1.50x against torch.compile, in the same run"
    assert judged.timing is not None
    assert (judged.timing.kernel_ms, judged.timing.eager_ms, judged.timing.compile_ms) == (1.1, 2.2, 1.65)


def test_a_module_that_torch_compile_cannot_do_keeps_its_speed_against_eager(tmp_path: Path) -> None:
    """One missing contestant is a skipped row, no failure."""
    quick = Script(READY, measured(eager=2.0, kernel=1.0))
    judged = trial(tmp_path)
    rows = list(checks(judged, [quick, Script({"ok": False, "unmeasured": "Unsupported: a generator"})]))
    assert (rows[-1].name, rows[-1].outcome) == ("torch.compile", "skip")
    assert "Unsupported: a generator" in rows[-1].detail
    assert judged.timing is not None and judged.timing.compile_ms is None


def test_what_does_not_fit_is_timed_smaller_and_said(tmp_path: Path) -> None:
    """The problem that was verified takes the place of one too large for the memory."""
    smaller = Script(READY, measured(eager=2.0, kernel=1.0))
    judged = trial(tmp_path, verified=SMALL)
    rows = list(checks(judged, [Script({"ok": False, "too_large": True}), smaller], "eager"))
    assert smaller.sent[0]["source"] == "small" and rows[0].outcome == "pass"
    assert any("smaller problem" in warning for warning in judged.warnings)


def test_what_fits_at_no_size_is_not_timed(tmp_path: Path) -> None:
    """There is no number then, and no failure."""
    rows = list(checks(trial(tmp_path), [Script({"ok": False, "too_large": True})], "eager"))
    assert [(row.name, row.outcome) for row in rows] == [("speed", "skip")]


def test_the_module_itself_failing_is_not_held_against_the_kernel(tmp_path: Path) -> None:
    """A reference that cannot run at full size leaves the speed unknown."""
    rows = list(checks(trial(tmp_path), [Script({"ok": False, "unmeasured": "RuntimeError: no"})], "eager"))
    assert rows[0].outcome == "skip" and "the module itself" in rows[0].detail


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (None, "crash", "exit 1"),
        ({"ok": False, "code": "runtime_error", "message": "running the kernel: no"}, "runtime_error", "no"),
        ({**measured(eager=2.0, kernel=1.0), "samples": [[1.0, 9.0]]}, "cheat", "lazy_output"),
        ({**measured(eager=2.0, kernel=1.0), "sums": checksums(torch.zeros(2))}, "value_mismatch", "sum to 0 and not"),
        ({**measured(eager=2.0, kernel=1.0), "late": {"kernel": 5.0}}, "cheat", "side_stream"),
    ],
)
def test_a_kernel_that_fails_while_it_is_timed_fails(tmp_path: Path, answer: Any, code: str, words: str) -> None:
    """Being verified before does not help a kernel that does something else under the clock."""
    with pytest.raises(Failed) as failed:
        list(checks(trial(tmp_path), [Script(READY, answer)], "eager"))
    assert failed.value.code == code and words in failed.value.message


def test_results_that_could_not_be_compared_are_said_to_be(tmp_path: Path) -> None:
    """No sample is no evidence."""
    judged = trial(tmp_path)
    list(checks(judged, [Script(READY, {**measured(eager=2.0, kernel=1.0), "samples": []})], "eager"))
    assert judged.warnings == ["what the kernel returns while it is timed could not be compared"]
