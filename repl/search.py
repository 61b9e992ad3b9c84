"""The answers of one backend in one turn: which are asked for, how far each is, and what became of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from backends import Backend, BackendUnavailable, NothingToConvert, Written
from backends.drawing import drawing_of
from repl.answer import Answer, shape
from repl.events import Dropped, Ended, Event, Options, Started, VerdictDone, Wrote
from repl.machine import has_gpu
from repl.plan import Ask, Pace, Plan
from repl.turn import CANNOT_VERIFY, Candidate, Trouble, Turn
from verifier.errors import VerificationError
from verifier.problem import Problem
from verifier.verdict import Verdict

ENOUGH_REPEATS = 3
"""A source that gave this many known kernels in a row is taken to have no other."""

TIME_IS_OVER = "the time budget ended"

_NO_KERNEL_YET = {"no_code", "syntax_error", "no_modelnew", "no_triton_kernel"}


class Search:
    """Draws from a backend and keeps the candidates in `done`, which the caller holds whatever ends the search."""

    def __init__(
        self, problem: Problem, backend: Backend, options: Options, began: float, done: list[Candidate]
    ) -> None:
        self.problem, self.options = problem, options
        self.pace = Pace()
        self._backend, self._began, self._done = backend, began, done
        self._seeds = len(done)
        self._plan = Plan(problem, options)
        self._drawing = drawing_of(backend, options.candidates)
        self._writing: dict[int, Answer] = {}
        self._waiting: deque[Answer] = deque()
        self._known = {shape(candidate.kernel) for candidate in done}
        self._exhausted = ""
        """Why the source has nothing more to give, once that is known."""
        self._judging = 0
        self._measured = options.speed and options.device != "cpu" and has_gpu()

    @property
    def over(self) -> bool:
        """True when nothing is being written, waits to be judged, or will be asked for."""
        return not self._writing and not self._waiting and not self._wants_more()

    def ended(self) -> Iterator[Event]:
        """Say why the search is over where it might have gone on."""
        left = self._left()
        late = left is not None and not self.pace.fits(left)
        if why := self._exhausted or (TIME_IS_OVER if late else ""):
            yield Ended(why)

    def ask(self) -> Iterator[Event]:
        """Ask for as many candidates as are wanted and can be written at a time."""
        asks = list(self._asks())
        planned = None if self.options.budget else self.options.candidates + self._seeds
        for ask in asks:
            yield Started(self._backend.name, ask.number, planned, ask.origin)
        for ask in asks:
            self._drawing.add(ask.request)

    def _asks(self) -> Iterator[Ask]:
        if self._must_be_quiet and (self._waiting or self._judging):
            return
        # What waits for its verdict counts: its findings should be known before much more is asked for.
        while len(self._writing) + len(self._waiting) + self._judging < self._drawing.width and self._wants_more():
            self._plan.takes_feedback = getattr(self._backend, "takes_feedback", True)
            ask = self._plan.next(self._done, self._seeds, self._left())
            self._writing[ask.request.candidate] = Answer(ask, time.monotonic())
            yield ask

    def next_answer(self) -> Answer | None:
        """Return an answer that waits to be judged, if one does and can be in the time that is left."""
        if self._must_be_quiet and self._writing:
            return None
        left = self._left()
        while self._waiting:
            answer = self._waiting.popleft()
            if left is None or not self._done or self.pace.judgement_fits(left):
                self._judging = 1
                return answer
        return None

    def wait(self) -> Iterator[Event]:
        """Wait for the next piece of any answer, no longer than the time budget."""
        left = self._left()
        if left is not None and left <= 0:
            yield from self._stop_writing()
            return
        piece = self._drawing.receive(left)
        if piece is not None:
            yield from self._take(piece)
        elif self._left() is None and self._writing:
            raise BackendUnavailable(f"{self._backend.name} ended without an answer", "try again")

    def look(self) -> Iterator[Event]:
        """Take what was written in the meantime."""
        while (piece := self._drawing.receive(0)) is not None:
            yield from self._take(piece)
        yield from self.ask()

    def judged(self, answer: Answer, verdict: Verdict) -> VerdictDone:
        """Keep a candidate with its verdict."""
        no_kernel = verdict.code in _NO_KERNEL_YET or "class ModelNew" not in answer.kernel
        if not verdict.passed and no_kernel and (answer.cut or verdict.code == "no_code"):
            # It failed because it was cut, or is prose: say that, and not "syntax error".
            verdict = replace(verdict, code="no_code", message=answer.fault)
        self._judging = 0
        candidate = self._candidate(answer, verdict)
        self._done.append(candidate)
        return VerdictDone(answer.number, candidate, best=Turn(candidates=tuple(self._done)).best is candidate)

    def unjudged(self, answer: Answer, fault: Exception) -> None:
        """Keep a candidate that cannot be judged on this machine: it is worth having all the same."""
        if isinstance(fault, VerificationError) and Trouble(fault.code, "").exit_code == CANNOT_VERIFY:
            self._done.append(self._candidate(answer, Verdict("cannot_verify", fault.code, fault.message)))

    def close(self) -> None:
        """Stop the writing."""
        self._drawing.close()

    def _take(self, piece: Written) -> Iterator[Event]:
        answer = self._writing[piece.candidate]
        if piece.chunk is not None:
            answer.take(piece.chunk)
            if piece.chunk.kind != "final":
                yield Wrote(piece.chunk.kind, piece.chunk.text, answer.number)
            if (left := self._left()) is not None and left <= 0:
                yield from self._stop_writing()
            return
        del self._writing[piece.candidate]
        if piece.fault is not None:
            yield from self._failed(answer, piece.fault)
            return
        self.pace.writing.append(time.monotonic() - answer.began)
        yield from self._complete(answer)

    def _complete(self, answer: Answer) -> Iterator[Event]:
        """Line an answer up to be judged, unless its code is known already."""
        mark = shape(answer.kernel)
        if answer.kernel.strip() and mark in self._known:
            self._plan.repeats += 1
            if self._plan.repeats >= ENOUGH_REPEATS:
                self._exhausted = self._exhausted or f"the last {ENOUGH_REPEATS} answers repeat earlier ones"
            yield Dropped(answer.number, "repeats an earlier one")
            return
        self._known.add(mark)
        self._plan.repeats = 0
        if self._waiting or self._judging:
            yield Wrote("status", "written, waits to be judged", answer.number)
        self._waiting.append(answer)

    def _failed(self, answer: Answer, fault: Exception) -> Iterator[Event]:
        """End the search where the source has no more; what was judged or is being written stands."""
        if not isinstance(fault, NothingToConvert | BackendUnavailable):
            raise fault
        if not (self._done or self._waiting or self._writing):
            raise fault
        self._exhausted = fault.message
        if isinstance(fault, BackendUnavailable):
            yield Dropped(answer.number, fault.message)

    def _stop_writing(self) -> Iterator[Event]:
        """The time is over: what is complete or looks so is judged, the rest is let go."""
        self._drawing.close()
        self._exhausted = TIME_IS_OVER
        answers, self._writing = list(self._writing.values()), {}
        for answer in sorted(answers, key=lambda answer: -len(answer.kernel)):  # the one that came furthest
            if not self._done and not self._waiting:
                answer.cut = answer.cut or TIME_IS_OVER
                self._waiting.append(answer)  # with nothing to show, an answer that was cut is better than none
            else:
                yield Dropped(answer.number, TIME_IS_OVER)

    @property
    def _must_be_quiet(self) -> bool:
        """True when a model that writes on this GPU would disturb the times that are measured on it."""
        return self._measured and getattr(self._drawing, "disturbs", False)

    def _wants_more(self) -> bool:
        return not self._exhausted and self._plan.goes_on(self._done, self._left(), self.pace)

    def _left(self) -> float | None:
        """Return the seconds of the budget that are left."""
        return None if self.options.budget is None else self.options.budget - (time.monotonic() - self._began)

    def _candidate(self, answer: Answer, verdict: Verdict) -> Candidate:
        ask, draft = answer.ask, answer.draft
        seconds = time.monotonic() - self._began
        return Candidate(
            self._backend.name, ask.origin, draft.kernel, verdict, ask.number, ask.parent, answer.repaired, seconds,
            draft.prose, draft.reasoning,
        )  # fmt: skip
