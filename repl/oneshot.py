"""One problem from a file or a pipe: the kernel to stdout, everything else to stderr, an exit code back."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator

from repl.arguments import Settings
from repl.convert import convert, judge
from repl.events import Event, Finished
from repl.parts import open_verifier, opened
from repl.show import Show
from repl.sources import Unreadable, read_kernel, read_problem
from repl.turn import Trouble, Turn, trouble_of


def convert_one(settings: Settings) -> int:
    """Convert the file or the standard input that was named; return the exit code."""
    path = settings.paths[0] if settings.paths else None
    return _finish(settings, lambda: _conversion(settings, path))


def verify_one(settings: Settings) -> int:
    """Judge a kernel somebody wrote; return the exit code."""
    problem, kernel = settings.paths
    return _finish(settings, lambda: _judgement(settings, problem, kernel), given=True)


def _conversion(settings: Settings, path: str | None) -> Iterator[Event]:
    problem = read_problem(path)
    with opened(settings) as (backend, verifier):
        yield from convert(problem, backend, verifier, settings.options)


def _judgement(settings: Settings, problem_path: str, kernel_path: str) -> Iterator[Event]:
    problem, kernel = read_problem(problem_path), read_kernel(kernel_path)
    verifier = open_verifier(settings)
    try:
        yield from judge(problem, kernel, verifier, settings.options)
    finally:
        verifier.close()


def _finish(settings: Settings, start: Callable[[], Iterator[Event]], *, given: bool = False) -> int:
    began = time.monotonic()
    with Show(settings) as show:
        turn = _follow(start, show)
        if turn.seconds == 0.0:
            turn = Turn(turn.problem, turn.candidates, turn.error, time.monotonic() - began)
        show.turn(turn)
    if settings.json:
        _print(json.dumps(turn.to_dict(), ensure_ascii=False))
    elif not given and turn.best and not show.printed_kernel:
        _print(labelled(turn))
    return turn.exit_code


def _follow(start: Callable[[], Iterator[Event]], show: Show) -> Turn:
    """Run to the end and return the turn, whatever ends it."""
    try:
        for event in start():
            show.event(event)
            if isinstance(event, Finished):
                return event.turn
    except KeyboardInterrupt:
        return Turn(error=Trouble("interrupted", "interrupted", "nothing was kept"))
    except Unreadable as fault:
        return Turn(error=fault.trouble)
    except Exception as fault:
        return Turn(error=trouble_of(fault) or unexpected(fault))
    return Turn(error=Trouble("internal_error", "the conversion ended without a result"))


def unexpected(fault: Exception) -> Trouble:
    """Tell of an error of our own without a traceback; KERNELLLM_DEBUG=1 raises it instead."""
    if os.environ.get("KERNELLLM_DEBUG"):
        raise fault
    message = f"{type(fault).__name__}: {' '.join(str(fault).split())[:300]}"
    return Trouble("internal_error", message, "this is a fault of kernelllm; KERNELLLM_DEBUG=1 shows where")


def labelled(turn: Turn) -> str:
    """Return the kernel, with a first line that says so when it is not verified."""
    if turn.best is None:
        return ""
    verdict = turn.best.verdict
    kernel = turn.best.kernel.rstrip("\n")
    if verdict.passed or not kernel:
        return kernel
    why = " ".join(f"{verdict.code} {verdict.message}".split())
    return f"# NOT VERIFIED: {why}\n{kernel}"


def _print(text: str) -> None:
    """Write to stdout; a reader that went away is no error of ours."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
