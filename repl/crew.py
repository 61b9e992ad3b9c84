"""Threads that convert problems side by side, each with a verifier and a backend of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from backends import Backend
from repl.arguments import Settings
from repl.convert import convert
from repl.events import Finished
from repl.oneshot import unexpected
from repl.parts import opened
from repl.sources import Unreadable, read_problem
from repl.turn import Trouble, Turn, trouble_of
from verifier.processors import ENOUGH, processors

if TYPE_CHECKING:
    from verifier.desk import Verifier


class Crew:
    """Daemon threads over one list of problems: a run that is given up leaves them, and their children, to its end."""

    def __init__(self, settings: Settings) -> None:
        jobs = 1 if _alone(settings) else settings.jobs
        beside = None if jobs * ENOUGH <= processors() else False  # else the problems themselves fill the processors
        self._settings = replace(settings, jobs=jobs, options=replace(settings.options, beside=beside))
        self._mine = threading.local()
        self._stack, self._lock = ExitStack(), threading.Lock()

    def results(self, files: Sequence[Path]) -> Iterator[tuple[Path, Turn]]:
        """Yield each problem with what became of it, in the order in which they end."""
        waiting: queue.SimpleQueue[Path] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[Path, Turn]] = queue.SimpleQueue()
        for file in files:
            waiting.put(file)
        for _ in range(min(self._settings.jobs, len(files))):
            threading.Thread(target=self._work, args=(waiting, done), daemon=True).start()
        for _ in files:
            yield done.get()

    def close(self) -> None:
        """End the verifiers and backends, once every problem is done."""
        self._stack.close()

    def _work(self, waiting: queue.SimpleQueue[Path], done: queue.SimpleQueue[tuple[Path, Turn]]) -> None:
        while True:
            try:
                file = waiting.get_nowait()
            except queue.Empty:
                return
            done.put((file, self._convert(file)))

    def _convert(self, file: Path) -> Turn:
        """Convert one problem; what goes wrong is in the turn."""
        problem = None
        try:
            problem = read_problem(str(file))
            backend, verifier = self._parts()
            for event in convert(problem, backend, verifier, self._settings.options):
                if isinstance(event, Finished):
                    return event.turn
        except Unreadable as fault:
            return Turn(error=fault.trouble)
        except Exception as fault:
            return Turn(problem, error=trouble_of(fault) or unexpected(fault))
        return Turn(problem, error=Trouble("internal_error", "the conversion ended without a result"))

    def _parts(self) -> tuple[Backend, Verifier]:
        if not hasattr(self._mine, "parts"):
            with self._lock:
                self._mine.parts = self._stack.enter_context(opened(self._settings))
        parts: tuple[Backend, Verifier] = self._mine.parts
        return parts


def _alone(settings: Settings) -> bool:
    """Whether there is one problem at a time: a model is not loaded twice, and one process has one debugger."""
    return settings.options.in_process or "local" in settings.backend
