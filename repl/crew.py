"""Threads that convert problems side by side, each with a verifier and a backend of its own."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

from backends import Backend
from repl.arguments import Settings
from repl.convert import convert
from repl.events import Finished
from repl.oneshot import unexpected
from repl.parts import opened
from repl.sources import Unreadable, read_problem
from repl.turn import Trouble, Turn, trouble_of
from verifier import Verifier


class Crew:
    """A verifier and a backend for each thread, opened at its first problem."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._stop = settings, threading.Event()
        self._mine = threading.local()
        self._stack, self._lock = ExitStack(), threading.Lock()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what runs: the threads' conversions end with their children."""
        self._stop.set()
        with self._lock:
            self._stack.close()

    def convert(self, file: Path) -> Turn:
        """Convert one problem; what goes wrong is in the turn."""
        problem = None
        try:
            problem = read_problem(str(file))
            backend, verifier = self._parts()
            for event in convert(problem, backend, verifier, self._settings.options):
                if isinstance(event, Finished):
                    return event.turn
            return Turn(problem, error=Trouble("interrupted", "interrupted"))
        except Unreadable as fault:
            return Turn(error=fault.trouble)
        except Exception as fault:
            if self._stop.is_set():  # its children were taken away: no fault of the problem
                return Turn(problem, error=Trouble("interrupted", "interrupted"))
            return Turn(problem, error=trouble_of(fault) or unexpected(fault))

    def _parts(self) -> tuple[Backend, Verifier]:
        if not hasattr(self._mine, "parts"):
            with self._lock:
                self._mine.parts = self._stack.enter_context(opened(self._settings))
        parts: tuple[Backend, Verifier] = self._mine.parts
        return parts
