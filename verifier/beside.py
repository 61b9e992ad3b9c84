"""Further children of one candidate beside the first: they try other sizes and other builds while it goes on.

A thread waits for the answers of each. Only whoever holds the baton thinks, and it is put down for nothing but waiting:
so neither torch nor the reference is ever used by two at a time, and what is found does not depend on who was faster.
The children share nothing. Each is contained as the first is, and loads the candidate for itself.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from verifier.containment import Contained
from verifier.trial import Answer, Process, Trial
from verifier.verdict import Check

Work = Callable[[Trial], Iterable[Check]]


class Baton:
    """Held by whoever thinks. Whoever makes it has it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    @contextmanager
    def down(self) -> Iterator[None]:
        """Let others think meanwhile."""
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Think, once it is free."""
        with self._lock:
            yield


class Awaited:
    """A candidate's process whose answers are waited for without the baton."""

    def __init__(self, process: Process, baton: Baton) -> None:
        self._process, self._baton = process, baton

    def ask(self, message: Answer, blobs: Sequence[Any], limit: float) -> tuple[Answer, list[bytes]]:
        """Send a request and wait for its answer."""
        with self._baton.down():
            return self._process.ask(message, blobs, limit)

    def printed(self) -> tuple[int, str]:
        """Return how much was printed, and the beginning of it."""
        return self._process.printed()

    def close(self) -> None:
        """End the process."""
        self._process.close()


class Later:
    """Rows to come: of a further child, or of the first one, when it is told to or when they are wanted."""

    def __init__(self, work: Work, trial: Trial, baton: Baton | None = None) -> None:
        self._work, self._trial = work, replace(trial, warnings=[])
        self._baton = baton  # of those who make them elsewhere
        self._done = threading.Event()
        self._rows: list[Check] = []
        self._fault: BaseException | None = None

    def make(self) -> None:
        """Do the work now, and keep what it gives or raises."""
        try:
            self._rows = list(self._work(self._trial))
        except BaseException as fault:
            self._fault = fault
        self._done.set()

    def fail(self, fault: BaseException) -> None:
        """Have whoever wants the rows meet this failure."""
        self._fault = fault
        self._done.set()

    def rows(self, trial: Trial) -> Iterator[Check]:
        """Yield the rows once they are there, their warnings being the trial's; raise what the work raised."""
        if self._baton is not None:
            with self._baton.down():
                self._done.wait()
        elif not self._done.is_set():
            self.make()
        for warning in self._trial.warnings:
            trial.warn(warning)
        if self._fault is not None:
            raise self._fault
        yield from self._rows


class Lane:
    """One further child of a candidate, and a thread that has it load the candidate and then do one work at a time."""

    def __init__(self, trial: Trial, child: Contained, ready: Callable[[Trial], object], baton: Baton) -> None:
        self._trial = replace(trial, process=Awaited(child, baton), warnings=[], state={}, compiled=trial.scratch)
        self._child, self._ready, self._baton = child, ready, baton
        self._waiting: queue.SimpleQueue[Later | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def do(self, work: Work) -> Later:
        """Queue some work."""
        later = Later(work, self._trial, self._baton)
        self._waiting.put(later)
        return later

    def close(self) -> None:
        """Stop at once, whatever is being done."""
        self._waiting.put(None)
        self._child.stop()
        with self._baton.down():
            self._thread.join()
        self._child.close()

    def _serve(self) -> None:
        fault: BaseException | None = None
        with self._baton.held():
            try:
                self._ready(self._trial)
            except BaseException as reason:
                fault = reason
            while (later := self._next()) is not None:
                if fault is None:
                    later.make()
                else:
                    later.fail(fault)

    def _next(self) -> Later | None:
        with self._baton.down():
            return self._waiting.get()


class InTurn:
    """The first child: what further ones would do is done by it, one after another, when the rows are wanted."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial

    def do(self, work: Work) -> Later:
        """Remember some work."""
        return Later(work, self._trial)
