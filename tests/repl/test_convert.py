"""The conversion loop over a scripted backend and verifier: what is asked, in which order, and what is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from backends import BackendUnavailable, Chunk, NothingToConvert, Request
from repl.convert import convert, judge
from repl.events import CandidateDone, CheckDone, Event, Finished, Options, Started, VerdictDone, Wrote
from repl.turn import Turn
from verifier.errors import VerificationError
from verifier.problem import Problem
from verifier.verdict import Check, Timing, Verdict

PROBLEM = Problem("source", "Model")
PASS = Verdict("pass", in_triton=("relu",))
WRONG = Verdict("fail", "value_mismatch", "12 % of the elements are wrong", checks=(Check("values", "fail", "row 3"),))


def timed(milliseconds: float) -> Verdict:
    """A verified kernel with its time."""
    return Verdict("pass", timing=Timing(milliseconds, 1.0, None, 1.0 / milliseconds, (0.9, 1.1)))


class Script:
    """A backend and a verifier that follow a script, and remember what they were asked."""

    name = "script"

    def __init__(self, answer: Callable[[Request], Iterator[Chunk]], *verdicts: Verdict | Exception) -> None:
        self.answer, self.verdicts = answer, list(verdicts)
        self.requests: list[Request] = []
        self.judged: list[str] = []
        self.closed: list[str] = []

    def write(self, request: Request) -> Iterator[Chunk]:
        """Write what the script says."""
        self.requests.append(request)
        try:
            yield from self.answer(request)
        finally:
            self.closed.append("writing")

    def verify(self, problem: Problem, kernel: str, **options: Any) -> Iterator[Check | Verdict]:
        """Judge as the script says."""
        self.judged.append(kernel)
        verdict = self.verdicts.pop(0)
        try:
            yield Check("parses", "pass")
            if isinstance(verdict, Exception):
                raise verdict
            yield verdict
        finally:
            self.closed.append("judging")

    def close(self) -> None:
        """Nothing is held."""


def numbered(request: Request) -> Iterator[Chunk]:
    """Another kernel for each candidate."""
    yield Chunk("code", f"kernel = {request.candidate}\n")


def finished(script: Script, options: Options | None = None) -> tuple[Turn, list[Event]]:
    """Run to the end."""
    events = list(convert(PROBLEM, script, script, options))
    last = events[-1]
    assert isinstance(last, Finished)
    return last.turn, events


def test_one_candidate() -> None:
    """The events come in order and the turn holds the kernel and its verdict."""
    turn, events = finished(Script(numbered, PASS))
    assert [type(e) for e in events] == [Started, Wrote, CandidateDone, CheckDone, VerdictDone, Finished]
    assert turn.best and turn.best.kernel == "kernel = 0\n" and turn.exit_code == 0 and turn.error is None


def test_best_of_k_keeps_the_fastest_verified() -> None:
    """All k are judged; a faster kernel that is wrong does not win."""
    script = Script(numbered, timed(0.5), WRONG, timed(0.2), timed(0.3))
    turn, events = finished(script, Options(candidates=4))
    assert turn.best is turn.candidates[2] and len(turn.candidates) == 4
    assert [e.best for e in events if isinstance(e, VerdictDone)] == [True, False, True, False]
    assert all(not request.feedback for request in script.requests)


def test_the_closed_loop_tells_what_failed() -> None:
    """With a budget, findings become the next request, until a kernel is right and nothing better can follow."""
    script = Script(numbered, WRONG, PASS)
    turn, _ = finished(script, Options(budget=60))
    assert turn.exit_code == 0 and [c.origin for c in turn.candidates] == ["candidate 1", "fix 2 of 1"]
    told = "\n".join(script.requests[1].feedback)
    assert "value_mismatch" in told and "row 3" in told and "kernel = 0" in told


def test_the_closed_loop_goes_on_for_speed_and_keeps_the_best() -> None:
    """A timed kernel is asked to become faster until the source repeats itself; the best stays the best."""

    def four(request: Request) -> Iterator[Chunk]:
        yield Chunk("code", f"kernel = {min(request.candidate, 3)}  # try {request.candidate}\n")

    script = Script(four, timed(0.5), timed(0.2), WRONG, timed(0.4))
    turn, _ = finished(script, Options(budget=60))
    assert turn.best is turn.candidates[1] and len(script.judged) == 4
    assert "0.2 ms" in "\n".join(script.requests[-1].feedback)


def test_the_budget_ends_a_stream() -> None:
    """Time that is over ends the writing, and the cut answer is not blamed for its syntax."""

    def endless(request: Request) -> Iterator[Chunk]:
        while True:
            yield Chunk("code", "x = (\n")

    turn, _ = finished(Script(endless, Verdict("fail", "syntax_error", "line 1")), Options(budget=0.05))
    assert turn.best and turn.best.verdict.code == "no_code" and "time budget" in turn.best.verdict.message


def test_a_budget_that_ends_before_the_first_word() -> None:
    """It is told what the time went into: most often a model that is being loaded."""

    def loading(request: Request) -> Iterator[Chunk]:
        yield Chunk("status", "loading SmolLM2")
        time.sleep(0.1)
        yield Chunk("status", "loading SmolLM2")

    turn, _ = finished(Script(loading), Options(budget=0.05))
    assert turn.verdict and turn.verdict.message == (
        "the answer was cut off: the time budget ended (last: loading SmolLM2); it held no code"
    )


def test_repeated_kernels_are_judged_once() -> None:
    """The same code in other layout and comments is the same candidate."""

    def same(request: Request) -> Iterator[Chunk]:
        yield Chunk("code", f"x=1  # {request.candidate}\n")

    script = Script(same, PASS)
    turn, _ = finished(script, Options(candidates=9))
    assert len(script.judged) == 1 and len(turn.candidates) == 1 and len(script.requests) == 4


def test_the_final_file_replaces_what_was_streamed() -> None:
    """Only the end of a language model's answer tells which block is the kernel."""

    def answer(request: Request) -> Iterator[Chunk]:
        yield Chunk("code", "draft")
        yield Chunk("final", "the_file = 1\n")

    turn, events = finished(Script(answer, PASS))
    assert turn.best and turn.best.kernel == "the_file = 1\n"
    assert "final" not in [e.kind for e in events if isinstance(e, Wrote)]


def test_an_answer_without_code_is_a_verdict() -> None:
    """No code is a failed candidate, not an error, and the verifier is not troubled."""
    script = Script(lambda request: iter([Chunk("prose", "I cannot.")]))
    turn, _ = finished(script)
    assert turn.best and turn.best.verdict.code == "no_code" and turn.exit_code == 1 and not script.judged


@pytest.mark.parametrize(
    ("fault", "code", "exit_code"),
    [
        (NothingToConvert("nothing_to_convert", "no operation of this module can be written in Triton"), None, 2),
        (BackendUnavailable("no weights", "download them"), "backend_unavailable", 3),
    ],
)
def test_a_backend_that_cannot_is_an_error(fault: Exception, code: str | None, exit_code: int) -> None:
    """The person's exceptions become the error of the turn, with their exit codes."""

    def refuse(request: Request) -> Iterator[Chunk]:
        raise fault
        yield

    turn, _ = finished(Script(refuse))
    assert turn.error and turn.error.code == (code or "nothing_to_convert") and turn.exit_code == exit_code


def test_a_source_that_ends_keeps_what_was_judged() -> None:
    """A backend without a further candidate ends the drawing, not the turn."""

    def two(request: Request) -> Iterator[Chunk]:
        if request.candidate == 2:
            raise NothingToConvert("no_more", "no further schedule")
        yield from numbered(request)

    turn, _ = finished(Script(two, WRONG, PASS), Options(candidates=5))
    assert turn.error is None and turn.exit_code == 0 and len(turn.candidates) == 2


def test_a_reference_that_fails_is_an_error() -> None:
    """What stops the verification is told with its line and ends the loop."""
    fault = VerificationError("reference_error", "shapes do not match", "run it first", 7)
    turn, _ = finished(Script(numbered, fault), Options(candidates=3))
    assert turn.error and (turn.error.code, turn.error.line) == ("reference_error", 7) and turn.exit_code == 2


def test_a_kernel_that_cannot_be_judged_here_is_kept() -> None:
    """Where the machine, not the module, is at fault the kernel is worth having, unverified."""
    turn, _ = finished(Script(numbered, VerificationError("no_gpu", "there is none")), Options(candidates=3))
    assert turn.best and turn.best.kernel == "kernel = 0\n" and turn.best.verdict.outcome == "cannot_verify"
    assert turn.error and turn.error.code == "no_gpu" and turn.exit_code == 4 and turn.judged is None


def test_our_own_faults_are_not_swallowed() -> None:
    """An exception nobody expected reaches the caller."""
    with pytest.raises(ZeroDivisionError):
        list(convert(PROBLEM, *[Script(numbered, ZeroDivisionError())] * 2))


@pytest.mark.parametrize(("until", "closed"), [(Wrote, "writing"), (CheckDone, "judging")])
def test_closing_stops_the_writing_and_the_judging(until: type, closed: str) -> None:
    """Closing the generator closes what runs at that moment."""
    script = Script(numbered, PASS)
    events = convert(PROBLEM, script, script)
    next(event for event in events if isinstance(event, until))
    events.close()  # type: ignore[attr-defined]
    assert script.closed[-1] == closed


def test_judging_a_given_kernel() -> None:
    """`verify` gives the same events without any writing."""
    events = list(judge(PROBLEM, "kernel", Script(numbered, WRONG)))
    assert [type(e) for e in events] == [CandidateDone, CheckDone, VerdictDone, Finished]
    assert isinstance(events[-1], Finished) and events[-1].turn.exit_code == 1
