"""One problem through a backend and the verifier: single, best-of-k, closed loop. Yields events; draws nothing.

Closing the generator stops everything at once: the writing, the judging, and the children behind both.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Protocol

from backends import Backend, BackendUnavailable, NothingToConvert, Request
from repl.events import CandidateDone, CheckDone, Event, Finished, Options, Started, VerdictDone, Wrote
from repl.feedback import feedback_of
from repl.turn import CANNOT_VERIFY, Candidate, Trouble, Turn, trouble_of
from verifier.errors import VerificationError
from verifier.problem import Problem
from verifier.verdict import Check, Verdict

ENOUGH_REPEATS = 3
"""A source that gave this many known kernels in a row is taken to have no other."""

_NO_KERNEL_YET = {"no_code", "syntax_error", "no_modelnew", "no_triton_kernel"}


class Verifier(Protocol):
    """Whoever judges: yields each check as it is made and the verdict last."""

    def verify(self, problem: Problem, kernel: str, **options: Any) -> Iterator[Check | Verdict]: ...


def convert(problem: Problem, backend: Backend, verifier: Verifier, options: Options | None = None) -> Iterator[Event]:
    """Convert and judge until the plan, the time or the source of candidates ends; the last event is Finished."""
    options = options or Options()
    began = time.monotonic()
    done: list[Candidate] = []
    error = None
    try:
        yield from _candidates(problem, backend, verifier, options, done, began)
    except Exception as fault:
        error = trouble_of(fault)
        if error is None:
            raise
    yield Finished(Turn(problem, tuple(done), error, time.monotonic() - began))


def judge(problem: Problem, kernel: str, verifier: Verifier, options: Options | None = None) -> Iterator[Event]:
    """Judge a kernel that somebody wrote; the events of `convert` from CandidateDone on."""
    began = time.monotonic()
    done: list[Candidate] = []
    error = None
    try:
        yield CandidateDone(1, kernel)
        verdict = yield from _verdict(problem, kernel, verifier, options or Options())
        done.append(Candidate("file", "given", kernel, verdict))
        yield VerdictDone(1, done[0], best=True)
    except Exception as fault:
        error = trouble_of(fault)
        if error is None:
            raise
    yield Finished(Turn(problem, tuple(done), error, time.monotonic() - began))


@dataclass(frozen=True)
class _Answer:
    kernel: str
    cut: str = ""


def _candidates(
    problem: Problem, backend: Backend, verifier: Verifier, options: Options, done: list[Candidate], began: float
) -> Iterator[Event]:
    """Draw, judge and collect into `done`, which the caller keeps whatever ends the drawing."""
    known: set[str] = set()
    number = repeats = 0
    while repeats < ENOUGH_REPEATS and _goes_on(number, options, done, began):
        number += 1
        yield Started(backend.name, number, None if options.budget else options.candidates)
        request = _request(problem, options, number, done, began)
        try:
            answer = yield from _answer(backend, request, began, options)
        except (NothingToConvert, BackendUnavailable):
            if done:
                return  # the source has no further candidate: those judged so far stand
            raise
        shape = _shape(answer.kernel)
        if shape in known:
            repeats += 1
            yield Wrote("status", f"candidate {number} repeats an earlier one")
            continue
        known.add(shape)
        repeats = 0
        yield CandidateDone(number, answer.kernel)
        try:
            verdict = yield from _verdict(problem, answer.kernel, verifier, options)
        except VerificationError as fault:
            if Trouble(fault.code, "").exit_code == CANNOT_VERIFY:  # the kernel is worth having all the same
                unjudged = Verdict("cannot_verify", fault.code, fault.message)
                done.append(Candidate(backend.name, _origin(request), answer.kernel, unjudged))
            raise
        verdict = _blame_the_cut(verdict, answer.cut)
        done.append(Candidate(backend.name, _origin(request), answer.kernel, verdict))
        yield VerdictDone(number, done[-1], best=Turn(candidates=tuple(done)).best is done[-1])


def _goes_on(number: int, options: Options, done: list[Candidate], began: float) -> bool:
    if options.budget is None or number == 0:
        return number < options.candidates
    if time.monotonic() - began >= options.budget:
        return False
    best = Turn(candidates=tuple(done)).best
    # Without a timing nothing better can follow a kernel that is right and leaves nothing to PyTorch.
    finished = best is not None and best.verdict.passed and not best.verdict.timing and not best.verdict.in_pytorch
    return number < options.candidates or not finished


def _request(problem: Problem, options: Options, number: int, done: list[Candidate], began: float) -> Request:
    repair = options.budget is not None and number > options.candidates
    return Request(
        source=problem.source,
        entry=problem.entry,
        candidate=len(options.earlier) + number - 1,
        feedback=feedback_of([*options.earlier, *done]) if repair or options.earlier else (),
        seed=options.seed or 0,
        seconds=options.budget - (time.monotonic() - began) if options.budget else None,
    )


def _origin(request: Request) -> str:
    return f"{'repair' if request.feedback else 'candidate'} {request.candidate + 1}"


def _answer(
    backend: Backend, request: Request, began: float, options: Options
) -> Generator[Event, None, _Answer]:
    """Stream one answer and return the kernel in it; `final` replaces what was streamed, `cut` says why it ended."""
    pieces: list[str] = []
    cut = ""
    stream = backend.write(request)
    try:
        for chunk in stream:
            if chunk.kind == "final":
                pieces = [chunk.text]
                continue
            if chunk.kind == "cut":
                cut = chunk.text
            elif chunk.kind == "code":
                pieces.append(chunk.text)
            yield Wrote(chunk.kind, chunk.text)
            if options.budget and time.monotonic() - began > options.budget:
                cut = cut or "the time budget ended"
                break
    finally:
        close = getattr(stream, "close", None)
        if close:
            close()
    return _Answer("".join(pieces), cut)


def _verdict(problem: Problem, kernel: str, verifier: Verifier, options: Options) -> Generator[Event, None, Verdict]:
    if not kernel.strip():
        return Verdict("fail", "no_code", "the answer holds no code")
    verdict = None
    with closing(_as_generator(verifier.verify(problem, kernel, **options.for_verifier()))) as steps:
        for step in steps:
            if isinstance(step, Verdict):
                verdict = step
            else:
                yield CheckDone(step)
    return verdict or Verdict("cannot_verify", "verifier_unavailable", "the verifier ended without a verdict")


def _as_generator(steps: Iterator[Check | Verdict]) -> Generator[Check | Verdict, None, None]:
    yield from steps


def _blame_the_cut(verdict: Verdict, cut: str) -> Verdict:
    """A cut answer that is no kernel failed because it was cut: say that, and not "syntax error"."""
    if cut and verdict.code in _NO_KERNEL_YET:
        return replace(verdict, code="no_code", message=f"the answer was cut off: {cut}")
    return verdict


def _shape(kernel: str) -> str:
    """What makes two candidates the same: their code without comments and layout."""
    try:
        return ast.dump(ast.parse(kernel))
    except (SyntaxError, ValueError, RecursionError):
        return kernel
