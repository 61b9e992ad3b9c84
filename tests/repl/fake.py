"""A backend and a verifier without torch, and a program that runs the real prompt with them.

`python -m tests.repl.fake MODE`: the mode says what the backend does ("quick", "block", "raise", "slow").
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from backends import Chunk, Request
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
        for number, line in enumerate(self.kernel.splitlines(keepends=True)):
            if self.mode == "block" and number == 20:
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


def main(mode: str) -> int:
    """Run the prompt with the fakes."""
    from repl import loop, parts
    from repl.arguments import parse

    parts.open_verifier = lambda settings: FakeVerifier(mode)  # type: ignore[assignment,return-value]
    parts.open_backend = lambda settings, judge: FakeBackend(mode)  # type: ignore[assignment,return-value]
    return loop.run(parse(sys.argv[2:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
