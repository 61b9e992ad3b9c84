"""What Python users get behind `KernelLLM.convert` and `.verify`: the same loop without a display, values back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import verifier
from backends import Backend, Spawn
from repl.convert import convert as events_of
from repl.events import Finished, Options
from repl.turn import Turn
from verifier.problem import Problem
from verifier.verdict import Verdict


def convert(code: str, options: Mapping[str, Any], open_writer: Callable[[Spawn | None], Backend]) -> Turn:
    """Convert a module and return all that became of it; raise NotAProblem when it is none."""
    problem = Problem.parse(code)
    chosen = Options(**options)
    judge = verifier.open_verifier(in_process=chosen.in_process, device=chosen.device)
    try:
        writer = open_writer(None if chosen.in_process else judge.spawn)
        try:
            for event in events_of(problem, writer, judge, chosen):
                if isinstance(event, Finished):
                    return event.turn
        finally:
            writer.close()
    finally:
        judge.close()
    raise RuntimeError("the conversion ended without a result")


def verify(problem: str, kernel: str, options: Mapping[str, Any]) -> Verdict:
    """Judge a kernel; raise NotAProblem or VerificationError when nothing can be judged."""
    return verifier.verify(Problem.parse(problem), kernel, **options)
