"""A backend and a verifier without torch, and a program that runs the real prompt with them.

`python -m tests.repl.fake MODE`: the mode says what the backend does ("quick", "block", "raise", "slow").
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from backends import BackendUnavailable, Chunk, Request
from kernelllm import end_in_order
from repl import loop
from repl.arguments import Settings, parse
from verifier.problem import Problem
from verifier.verdict import Check, Verdict

KERNEL = "".join(f"line_{n} = acc[mask] + {n}\n" for n in range(40))


class FakeBackend:
    """Streams a fixed kernel; in mode "block" it stops half-way and waits for ever."""

    name = "fake"

    def __init__(self, mode: str = "quick", kernel: str = KERNEL) -> None:
        self.mode, self.kernel = mode, kernel

    def write(self, request: Request) -> Iterator[Chunk]:
        """Stream the kernel line by line."""
        yield Chunk("status", "reading the module")
        if request.candidate:
            yield Chunk("code", f"candidate = {request.candidate}\n")
        for number, line in enumerate(self.kernel.splitlines(keepends=True)):
            if (self.mode == "block" or (self.mode == "block second" and request.candidate)) and number == 20:
                time.sleep(600)
            if self.mode == "raise" and number == 20:
                raise RuntimeError("the generator died [/bold]")
            if self.mode == "slow":
                time.sleep(0.05)
            yield Chunk("code", line)

    def close(self) -> None:
        """Nothing is held."""


class FakeVerifier:
    """Passes every kernel; in mode "hang" it waits for ever."""

    spawn = None

    def __init__(self, mode: str = "quick") -> None:
        self.mode = mode

    def verify(self, problem: Problem, kernel: str, **options: Any) -> Iterator[Check | Verdict]:
        """Yield two checks and a verdict."""
        checks = (Check("parses", "pass"), Check("values", "pass", "3 seeds"))
        yield checks[0]
        if self.mode == "hang":
            time.sleep(600)
        yield checks[1]
        yield Verdict("pass", checks=checks, device="cpu (interpreter)", in_triton=("relu",))

    def close(self) -> None:
        """Nothing is held."""


class FakeParts:
    """Opens the fakes."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    def open_verifier(self, settings: Settings) -> Any:
        """Open the fake verifier."""
        return FakeVerifier(self.mode)

    def open_backend(self, settings: Settings, judge: Any) -> Any:
        """Open the fake backend; one called "gone" is unavailable."""
        if settings.model == "gone":
            raise BackendUnavailable("the model is not here", "fetch it first")
        return FakeBackend(self.mode)


if __name__ == "__main__":
    end_in_order()
    sys.exit(loop.run(parse(sys.argv[2:]), FakeParts(sys.argv[1])))
