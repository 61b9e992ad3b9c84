"""One problem through a backend and the verifier: single, best-of-k, closed loop. Yields events; draws nothing.

Closing the generator stops everything at once: the writing, the judging, and the children behind both.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, Protocol

from backends import Backend, BackendUnavailable, NothingToConvert
from backends.team import Team
from repl.events import CandidateDone, CheckDone, Event, Finished, Options, VerdictDone
from repl.search import Search
from repl.turn import Candidate, Turn, trouble_of
from verifier.problem import Problem
from verifier.verdict import Check, Verdict


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
        if isinstance(backend, Team):
            yield from _in_turn(problem, backend, verifier, options, done, began)
        else:
            yield from _searched(Search(problem, backend, options, began, done), verifier)
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
        verdict: Verdict | None = None
        for step in verdict_steps(problem, kernel, verifier, options or Options()):
            if isinstance(step, Verdict):
                verdict = step
            else:
                yield CheckDone(step)
        assert verdict is not None
        done.append(Candidate("file", "given", kernel, verdict, 1, seconds=time.monotonic() - began))
        yield VerdictDone(1, done[0], best=True)
    except Exception as fault:
        error = trouble_of(fault)
        if error is None:
            raise
    yield Finished(Turn(problem, tuple(done), error, time.monotonic() - began))


def verdict_steps(
    problem: Problem, kernel: str, verifier: Verifier, options: Options
) -> Generator[Check | Verdict, None, None]:
    """Judge one kernel: each check, and always a verdict last."""
    if not kernel.strip():
        yield Verdict("fail", "no_code", "the answer holds no code")
        return
    with closing(_as_generator(verifier.verify(problem, kernel, **options.for_verifier()))) as steps:
        for step in steps:
            yield step
            if isinstance(step, Verdict):
                return
    yield Verdict("cannot_verify", "verifier_unavailable", "the verifier ended without a verdict")


def _in_turn(
    problem: Problem, team: Team, verifier: Verifier, options: Options, done: list[Candidate], began: float
) -> Iterator[Event]:
    """Let the first write its one kernel, then the second compete with it, knowing it if it is right."""
    try:
        once = replace(options, candidates=1, budget=None, earlier=())
        yield from _searched(Search(problem, team.first, once, began, done), verifier)
    except NothingToConvert:
        pass  # the first cannot; the second may
    try:
        yield from _searched(Search(problem, team.second, options, began, done), verifier)
    except (NothingToConvert, BackendUnavailable):
        if not any(candidate.verdict.passed for candidate in done):
            raise  # else the turn has its kernel, and who could not compete is told by the candidates


def _searched(search: Search, verifier: Verifier) -> Iterator[Event]:
    """Judge what is written, each answer as it completes, while the others go on being written."""
    with closing(search):
        while True:
            yield from search.ask()
            answer = search.next_answer()
            if answer is None:
                if search.over:
                    yield from search.ended()
                    return
                yield from search.wait()
                continue
            yield CandidateDone(answer.number, answer.kernel)
            began = time.monotonic()
            steps = verdict_steps(search.problem, answer.kernel, verifier, search.options)
            try:
                with closing(steps):
                    for step in steps:
                        if isinstance(step, Verdict):
                            search.pace.judging.append(time.monotonic() - began)
                            yield search.judged(answer, step)
                        else:
                            yield CheckDone(step, answer.number)
                        yield from search.look()
            except Exception as fault:
                search.unjudged(answer, fault)
                raise


def _as_generator(steps: Iterator[Check | Verdict]) -> Generator[Check | Verdict, None, None]:
    yield from steps
