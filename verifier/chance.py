"""What a result may depend on besides its inputs: the clock, the system's random bytes, Python's and numpy's generator.

PyTorch's own generator is looked at where forward is called. Runs in the candidate's child.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

_CLOCKS = """
    time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time process_time_ns thread_time
    thread_time_ns
    """.split()


@dataclass
class Chance:
    """Notes, while `active`, who asks for any of it; `seen` says it in words."""

    active: bool = False
    seen: list[str] = field(default_factory=list)
    _before: tuple[Any, Any] = (None, None)

    def watch(self, asked: Callable[[], bool]) -> None:
        """Watch this process's clocks and random bytes; `asked` tells whether it is the candidate that asks."""
        for name in _CLOCKS:
            setattr(time, name, self._noted(getattr(time, name), "the clock", asked))
        bytes_ = self._noted(os.urandom, "the system's random numbers", asked)
        os.urandom = random._urandom = bytes_  # type: ignore[attr-defined]

    def begin(self) -> None:
        """Start a call."""
        self.active, self.seen, self._before = True, [], generators()

    def end(self) -> None:
        """End it; what was drawn shows in the generators."""
        self.active = False
        for name, before, after in zip(("Python's", "numpy's"), self._before, generators(), strict=True):
            if before != after:
                self.seen.append(f"{name} random numbers")

    def _noted(self, function: Callable[..., Any], what: str, asked: Callable[[], bool]) -> Callable[..., Any]:
        @wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            if self.active and what not in self.seen and asked():
                self.seen.append(what)
            return function(*args, **kwargs)

        return noted


def generators() -> tuple[Any, Any]:
    """Return the states of the generators that `seed_all` seeds besides PyTorch's, to compare."""
    numpy = sys.modules.get("numpy")
    return random.getstate(), repr(numpy.random.get_state()) if numpy is not None else None
