"""One problem from a file or a pipe: the kernel to stdout, everything else to stderr, an exit code back."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from repl.arguments import Settings, UsageError
from repl.convert import convert, judge
from repl.events import Event, Finished, VerdictDone
from repl.highlight import UnknownTheme
from repl.parts import open_verifier, opened
from repl.show import Show
from repl.sources import Unreadable, read_kernel, read_problem
from repl.turn import USAGE, Candidate, Trouble, Turn, trouble_of
from verifier.problem import Problem


def convert_one(settings: Settings) -> int:
    """Convert the file or the standard input that was named; return the exit code."""

    def events(problem: Problem) -> Iterator[Event]:
        with opened(settings) as (backend, verifier):
            yield from convert(problem, backend, verifier, settings.options)

    path = settings.paths[0] if settings.paths else None
    turn, streamed = _run(settings, path, events)
    return turn.exit_code if _answer(settings, turn, "" if streamed else labelled(turn)) else USAGE


def verify_one(settings: Settings) -> int:
    """Judge a kernel somebody wrote; return the exit code."""
    problem_path, kernel_path = settings.paths

    def events(problem: Problem) -> Iterator[Event]:
        kernel = read_kernel(kernel_path)
        verifier = open_verifier(settings)
        try:
            yield from judge(problem, kernel, verifier, settings.options)
        finally:
            verifier.close()

    turn, _ = _run(settings, problem_path, events)
    return turn.exit_code if _answer(settings, turn, "") else USAGE


def labelled(turn: Turn) -> str:
    """Return the kernel, with a first line that says so when it is not verified."""
    if turn.best is None:
        return ""
    verdict, kernel = turn.best.verdict, turn.best.kernel.rstrip("\n")
    if verdict.passed or not kernel:
        return kernel
    why = " ".join(f"{verdict.code} {verdict.message}".split())
    return f"# NOT VERIFIED: {why}\n{kernel}"


def unexpected(fault: Exception) -> Trouble:
    """Tell of an error of our own in one line; KERNELLLM_DEBUG=1 prints the traceback as well."""
    if os.environ.get("KERNELLLM_DEBUG"):
        traceback.print_exception(fault)
    message = f"{type(fault).__name__}: {' '.join(str(fault).split())[:300]}"
    return Trouble("internal_error", message, "this is a fault of kernelllm; KERNELLLM_DEBUG=1 shows where")


def bad_usage(fault: UsageError, *, as_json: bool) -> int:
    """Tell what is wrong with the command line; return the exit code."""
    trouble = Trouble("usage", fault.message, fault.hint)
    print(f"error [usage]: {fault.message}\n  {fault.hint}", file=sys.stderr)
    if as_json:
        say(json.dumps(Turn(error=trouble).to_dict()))
    return trouble.exit_code


def say(text: str) -> bool:
    """Write to stdout, and return whether it could be; a reader that went away is no error of ours."""
    try:
        print(text, flush=True)
        return True
    except BrokenPipeError:
        fault = None
    except OSError as error:
        fault = error.strerror
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python would fail once more when it ends
    if fault:
        print(f"error [unwritable]: the result cannot be written: {fault}\n  send it elsewhere", file=sys.stderr)
    return not fault


@dataclass
class _Kept:
    """What is known when something ends the run early."""

    problem: Problem | None = None
    candidates: list[Candidate] = field(default_factory=list)


def _run(settings: Settings, path: str | None, events: Callable[[Problem], Iterator[Event]]) -> tuple[Turn, bool]:
    """Go through the events and show them; return the turn, and whether its kernel is on the screen already."""
    began = time.monotonic()
    with Show(settings) as show:
        turn = replace(_turn(path, events, show), seconds=time.monotonic() - began)
        show.result(turn)
        return turn, show.showed_the_kernel


def _turn(path: str | None, events: Callable[[Problem], Iterator[Event]], show: Show) -> Turn:
    kept = _Kept()
    try:
        kept.problem = read_problem(path)
        show.problem(kept.problem)
        for event in events(kept.problem):
            show.event(event)
            if isinstance(event, VerdictDone):
                kept.candidates.append(event.candidate)
            if isinstance(event, Finished):
                return event.turn
        error = Trouble("internal_error", "the conversion ended without a result")
    except KeyboardInterrupt:
        error = Trouble("interrupted", "interrupted")
    except Unreadable as fault:
        error = fault.trouble
    except UnknownTheme as fault:
        error = Trouble("usage", str(fault), "name a Pygments style, or leave --theme out")
    except Exception as fault:
        error = trouble_of(fault) or unexpected(fault)
    return Turn(kept.problem, tuple(kept.candidates), error)


def _answer(settings: Settings, turn: Turn, kernel: str) -> bool:
    if settings.json:
        return say(json.dumps(turn.to_dict(), ensure_ascii=False))
    return say(kernel) if kernel else True
