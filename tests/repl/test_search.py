"""Several candidates at a time: who writes while another is judged, what shares the budget, and how it ends."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends import BackendUnavailable, Chunk, NothingToConvert, Request, Written
from backends.recorded import Recorded
from backends.team import Team
from repl.answer import shape
from repl.convert import convert
from repl.events import CandidateDone, CheckDone, Dropped, Ended, Event, Finished, Options, Started, VerdictDone, Wrote
from repl.plan import FIXES, Pace, Plan
from repl.turn import Candidate, Turn
from verifier.problem import Problem
from verifier.verdict import Check, Timing, Verdict

PROBLEM = Problem("source", "Model")
PASS = Verdict("pass", in_triton=("relu",))
WRONG = Verdict("fail", "value_mismatch", "12 % of the elements are wrong", checks=(Check("values", "fail", "row 3"),))
CRASHED = Verdict("fail", "compile_error", "line 2: no such op", checks=(Check("parses", "pass"), Check("x", "fail")))


def timed(milliseconds: float) -> Verdict:
    """A verified kernel with its time."""
    return Verdict("pass", timing=Timing(milliseconds, 1.0, None, 1.0 / milliseconds, (0.9, 1.1)))


class Side:
    """A drawing in which every answer is a list of chunks, given out in turns whether or not anybody waits."""

    def __init__(self, width: int, answer: Callable[[Request], list[Chunk] | Exception]) -> None:
        self.width, self.answer = width, answer
        self.streams: dict[int, deque[Any]] = {}
        self.requests: list[Request] = []
        self.given: Counter[int] = Counter()
        self.closed = False

    def add(self, request: Request) -> None:
        """Begin an answer."""
        self.requests.append(request)
        said = self.answer(request)
        self.streams[request.candidate] = deque([said] if isinstance(said, Exception) else said)

    def receive(self, timeout: float | None = None) -> Written | None:
        """Give the next piece of the answer that has given the fewest."""
        if not self.streams:
            return None
        candidate = min(self.streams, key=lambda one: (self.given[one], one))
        self.given[candidate] += 1
        stream = self.streams[candidate]
        if not stream:
            del self.streams[candidate]
            return Written(candidate)
        piece = stream.popleft()
        if isinstance(piece, Exception):
            del self.streams[candidate]
            return Written(candidate, fault=piece)
        return Written(candidate, piece)

    def close(self) -> None:
        """Stop."""
        self.closed = True


class Backend:
    """A backend that draws side by side."""

    name = "model"

    def __init__(self, answer: Callable[[Request], list[Chunk] | Exception]) -> None:
        self.answer = answer
        self.drawings: list[Side] = []

    def draw(self, width: int) -> Side:
        """Begin a drawing."""
        self.drawings.append(Side(width, self.answer))
        return self.drawings[-1]

    def write(self, request: Request) -> Iterator[Chunk]:
        """Never used: a backend that can draw is drawn from."""
        raise AssertionError

    def close(self) -> None:
        """Nothing is held."""


class Judge:
    """Judges in two steps by what the kernel says, and remembers the order."""

    def __init__(self, verdicts: dict[str, Verdict], seconds: float = 0.0) -> None:
        self.verdicts, self.seconds = verdicts, seconds
        self.judged: list[str] = []

    def verify(self, problem: Problem, kernel: str, **options: Any) -> Iterator[Check | Verdict]:
        """Judge."""
        self.judged.append(kernel)
        yield Check("parses", "pass")
        time.sleep(self.seconds)
        yield Check("values", "pass")
        yield self.verdicts.get(kernel, WRONG)


def lines(request: Request, count: int = 4) -> list[Chunk]:
    """An answer of a few lines, another for each candidate."""
    return [Chunk("code", f"x{n} = {request.candidate}\n") for n in range(count)]


def kernel(candidate: int, count: int = 4) -> str:
    """The kernel of `lines`."""
    return "".join(f"x{n} = {candidate}\n" for n in range(count))


def finished(backend: Any, judge: Judge, options: Options) -> tuple[Turn, list[Event]]:
    """Run to the end."""
    events = list(convert(PROBLEM, backend, judge, options))
    assert isinstance(events[-1], Finished)
    return events[-1].turn, events


def test_others_are_written_while_one_is_judged() -> None:
    """All k are asked for at once; a short answer is judged before the long ones are complete; the fastest stays."""
    backend = Backend(lambda request: lines(request, 2 if request.candidate == 1 else 9))
    judge = Judge({kernel(1, 2): timed(0.5), kernel(3, 9): timed(0.2)})
    turn, events = finished(backend, judge, Options(candidates=4))
    assert judge.judged[0] == kernel(1, 2) and len(turn.candidates) == 4
    first = next(n for n, event in enumerate(events) if isinstance(event, CheckDone))
    assert len([e for e in events[:first] if isinstance(e, Started)]) == 4
    assert any(isinstance(event, Wrote) for event in events[first:])
    assert turn.best and turn.best.kernel == kernel(3, 9) and turn.best.seconds > 0
    assert all(request.feedback == () and not request.alone for request in backend.drawings[0].requests)


def test_nothing_is_measured_while_a_model_uses_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model on this machine's GPU writes, then the answers are judged, then it writes again: never both."""
    monkeypatch.setattr("repl.search.has_gpu", lambda: True)
    monkeypatch.setattr(Side, "disturbs", True, raising=False)
    backend = Backend(lambda request: lines(request, 3 * (request.candidate + 1)))
    _, events = finished(backend, Judge({}), Options(candidates=3))
    judging = [isinstance(event, CandidateDone | CheckDone | VerdictDone) for event in events[:-1]]
    assert judging == sorted(judging) and len(events) > 12
    _, events = finished(backend, Judge({}), Options(candidates=3, speed=False))
    judging = [isinstance(event, CandidateDone | CheckDone | VerdictDone) for event in events[:-1]]
    assert judging != sorted(judging)


def test_events_name_their_candidate() -> None:
    """What is written, checked and judged can be told apart."""
    backend = Backend(lines)
    _, events = finished(backend, Judge({}), Options(candidates=2))
    assert {e.number for e in events if isinstance(e, Wrote)} == {1, 2}
    assert [e.number for e in events if isinstance(e, CandidateDone)] == [1, 2]
    assert {e.number for e in events if isinstance(e, CheckDone)} == {1, 2}


def test_duplicates_are_not_judged_twice() -> None:
    """Comments, docstrings and layout make no difference, and it is told which one was dropped."""
    texts = ["x = 1\n", "x=1  # the same\n", '"""Doc."""\nx = 1\n']
    backend = Backend(lambda request: [Chunk("code", texts[request.candidate])])
    judge = Judge({})
    turn, events = finished(backend, judge, Options(candidates=3))
    assert len(judge.judged) == 1 and len(turn.candidates) == 1
    assert [e.number for e in events if isinstance(e, Dropped)] == [2, 3]
    assert shape('def f():\n    """Doc."""\n    return 1\n') == shape("def f(): return 1")


def reasons(events: list[Event]) -> list[str]:
    """Why nothing more was asked for, as it was told."""
    return [event.why for event in events if isinstance(event, Ended)]


def test_one_that_fails_leaves_the_others() -> None:
    """A request that a server refuses is dropped with its reason; the rest are judged."""

    def answer(request: Request) -> list[Chunk] | Exception:
        return BackendUnavailable("answers 429") if request.candidate == 1 else lines(request)

    turn, events = finished(Backend(answer), Judge({kernel(0): PASS}), Options(candidates=3))
    assert turn.exit_code == 0 and turn.error is None and len(turn.candidates) == 2
    assert [(e.number, e.why) for e in events if isinstance(e, Dropped)] == [(2, "answers 429")]
    assert reasons(events) == ["answers 429"]


def test_all_that_fail_are_one_error() -> None:
    """A server that is down is told once."""
    turn, _ = finished(Backend(lambda request: BackendUnavailable("is down")), Judge({}), Options(candidates=3))
    assert turn.error and turn.error.message == "is down" and turn.exit_code == 3


def test_closing_stops_the_writing() -> None:
    """Ctrl-C while one is judged and others are written ends them all."""
    backend = Backend(lambda request: lines(request, 3 * (request.candidate + 1)))
    events = convert(PROBLEM, backend, Judge({}), Options(candidates=3))
    next(event for event in events if isinstance(event, CheckDone))
    events.close()  # type: ignore[attr-defined]
    assert backend.drawings[0].closed


def test_what_a_model_began_anew_is_void() -> None:
    """After an out-of-memory the answer begins again, and the first part is not in the kernel."""
    said = [Chunk("code", "half"), Chunk("again", ""), Chunk("code", "x = 1\n"), Chunk("repaired", "grid is gone")]
    turn, _ = finished(Backend(lambda request: said), Judge({"x = 1\n": PASS}), Options())
    assert turn.kernel == "x = 1\n" and turn.candidates[0].repaired == ("grid is gone",)


def test_the_loop_fails_three_ways_and_then_succeeds(tmp_path: Path) -> None:
    """Each finding is in the next request, and a fix says what it fixes."""
    for number, text in enumerate(("no code", "```python\nx = (\n```", "```\ny = 1\n```", "```\nz = 1\n```")):
        (tmp_path / f"{number}.md").write_text(text)
    backend, requests = Recorded(str(tmp_path)), []
    write = backend.write
    backend.write = lambda request: requests.append(request) or write(request)  # type: ignore[method-assign]
    broken = Verdict("fail", "syntax_error", "line 1: '(' was never closed")
    judge = Judge({"x = (\n": broken, "y = 1\n": WRONG, "z = 1\n": PASS})
    turn, _ = finished(backend, judge, Options(budget=60))
    assert [c.verdict.code for c in turn.candidates] == ["no_code", "syntax_error", "value_mismatch", ""]
    assert turn.exit_code == 0 and turn.kernel == "z = 1\n"
    assert "no code" in requests[1].feedback[-1]
    assert "was never closed" in "".join(requests[2].feedback) and "row 3" in "".join(requests[3].feedback)


def test_nothing_starts_that_cannot_finish() -> None:
    """When writing and judging took longer than what is left, the loop ends with the best so far."""
    backend = Backend(lambda request: lines(request))
    judge = Judge({kernel(0): timed(0.5)}, seconds=0.3)
    began = time.monotonic()
    turn, events = finished(backend, judge, Options(budget=0.5))
    assert turn.best and turn.best.kernel == kernel(0) and len(turn.candidates) == 1
    assert reasons(events) == ["the time budget ended"]
    assert time.monotonic() - began < 0.5


def test_fresh_fixes_and_faster_share_the_budget() -> None:
    """Before anything is right, fixes and fresh samples; then faster versions have the most."""
    options = Options(budget=600)
    plan = Plan(PROBLEM, options)
    done: list[Candidate] = []
    kinds = []
    for number in range(16):
        ask = plan.next(done, 0, 600.0)
        kinds.append(ask.kind)
        verdict = timed(1 / (number + 1)) if number >= 5 and ask.kind != "fix" else WRONG
        done.append(Candidate("m", ask.origin, str(number), verdict, ask.number, ask.parent))
    assert kinds[0] == "candidate" and set(kinds[1:5]) == {"fix", "candidate"}
    later = kinds[7:]
    assert later.count("faster") > later.count("fix") > 0 and "candidate" in later


def test_a_lineage_is_not_fixed_for_ever() -> None:
    """After three fixes that did not help, fresh samples are drawn."""
    plan = Plan(PROBLEM, Options(budget=600))
    done: list[Candidate] = []
    for _ in range(12):
        ask = plan.next(done, 0, 600.0)
        done.append(Candidate("m", ask.origin, str(ask.number), WRONG, ask.number, ask.parent))
    known = {c.number: c for c in done}

    def depth(candidate: Candidate) -> int:
        return 1 + depth(known[candidate.parent]) if candidate.parent else 0

    assert max(map(depth, done)) <= FIXES


def test_the_failure_that_came_furthest_is_fixed() -> None:
    """What passed more checks is nearer to being right."""
    plan = Plan(PROBLEM, Options(budget=600))
    far = replace(CRASHED, checks=(Check("parses", "pass"), Check("loads", "pass"), Check("values", "fail")))
    done = [Candidate("m", "candidate 1", "a", far, 1), Candidate("m", "candidate 2", "b", CRASHED, 2)]
    plan.asked = [plan.next([], 0, None)]
    assert plan.next(done, 0, 600.0).parent == 1


def test_a_model_that_takes_no_feedback_is_asked_anew() -> None:
    """For a model tuned on one raw prompt every candidate is a fresh sample."""
    backend = Backend(lines)
    backend.takes_feedback = False  # type: ignore[attr-defined]
    turn, _ = finished(backend, Judge({kernel(2): PASS}), Options(budget=60))
    assert [c.origin for c in turn.candidates] == ["candidate 1", "candidate 2", "candidate 3"]


def test_pace() -> None:
    """What fits is told by the medians of what was."""
    pace = Pace([1.0, 3.0, 2.0], [4.0])
    assert pace.fits(6.5) and not pace.fits(5.5) and pace.judgement_fits(5.0) and not pace.judgement_fits(3.0)


class Compiler:
    """Writes one kernel, or none."""

    name = "builtin"

    def __init__(self, text: str = "") -> None:
        self.text = text

    def write(self, request: Request) -> Iterator[Chunk]:
        """Write it."""
        if not self.text or request.candidate:
            raise NothingToConvert("nothing_to_convert", "no")
        yield Chunk("code", self.text)

    def close(self) -> None:
        """Nothing is held."""


def test_builtins_kernel_seeds_the_models_prompt_and_competes() -> None:
    """The model is told of the kernel to beat in every second request, and the fastest of all is kept."""
    backend = Backend(lines)
    judge = Judge({"b = 1\n": timed(0.5), kernel(1): timed(0.2)})
    turn, events = finished(Team(Compiler("b = 1\n"), backend), judge, Options(candidates=2))
    assert [(c.backend, c.origin) for c in turn.candidates] == [
        ("builtin", "candidate 1"), ("model", "faster 2 of 1"), ("model", "candidate 3"),
    ]  # fmt: skip
    requests = backend.drawings[0].requests
    assert "b = 1" in requests[0].feedback[-1] and "0.5 ms" in requests[0].feedback[-1] and requests[1].feedback == ()
    assert turn.kernel == kernel(1)
    assert [e.best for e in events if isinstance(e, VerdictDone)] == [True, False, True]


@pytest.mark.parametrize("down", [False, True])
def test_a_team_goes_on_without_one(down: bool) -> None:
    """The model may do what builtin cannot, and builtin's kernel stays when the model's server is down."""
    if down:
        team = Team(Compiler("b = 1\n"), Backend(lambda request: BackendUnavailable("is down")))
    else:
        team = Team(Compiler(), Backend(lines))
    turn, _ = finished(team, Judge({"b = 1\n": PASS, kernel(0): PASS}), Options())
    assert turn.exit_code == 0 and turn.error is None and len(turn.candidates) == 1
