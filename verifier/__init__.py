"""Data in, data out: `verify(problem, kernel)` says whether a kernel is right, and how fast. Knows no terminal.

Importing this imports neither torch nor triton.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from verifier.problem import Problem
from verifier.verdict import Check, Verdict

if TYPE_CHECKING:
    from verifier.desk import Verifier  # its sockets and processes are wanted after the prompt is on the screen

__all__ = ["Check", "Problem", "Verdict", "open_verifier", "verify"]


def open_verifier(*, in_process: bool = False, device: str = "auto", **expected: Any) -> Verifier:
    """Return a verifier, its processes starting behind it, ready for these options of `verify`; close it when done."""
    from verifier.desk import InProcessVerifier, WorkerVerifier

    return InProcessVerifier(device) if in_process else WorkerVerifier(device, **expected)


def verify(
    problem: Problem,
    kernel: str,
    *,
    device: str = "auto",
    seed: int | None = None,
    speed: bool = True,
    in_process: bool = False,
    baseline: str = "both",
    precision: Literal["exact", "fast"] = "exact",
    sanitize: Literal["", "memcheck", "racecheck", "both"] = "",
    on_check: Callable[[Check], Any] | None = None,
) -> Verdict:
    """Judge a kernel file; raise VerificationError when the problem itself cannot be run."""
    judge = open_verifier(in_process=True, device=device) if in_process else _shared(os.getpid())
    verdict = None
    options = {"device": device, "seed": seed, "speed": speed, "baseline": baseline, "precision": precision}
    for step in judge.verify(problem, kernel, sanitize=sanitize, **options):
        if isinstance(step, Verdict):
            verdict = step
        elif on_check is not None:
            on_check(step)
    assert verdict is not None
    return verdict


@cache
def _shared(process: int) -> Verifier:
    """Keep the processes between two calls; they end with this one, whose hanging up they notice."""
    return open_verifier()
