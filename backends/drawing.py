"""Several answers at once, for backends that write one at a time and for those that are only waited for."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator

from backends import Backend, Chunk, Drawing, Request, Written

Write = Callable[[Request], Iterator[Chunk]]


def drawing_of(backend: Backend, width: int) -> Drawing:
    """Draw from a backend: at most `width` answers at a time, one by one where it offers nothing else."""
    draw = getattr(backend, "draw", None)
    return draw(width) if draw else OneByOne(backend.write)


class OneByOne:
    """Pulls one answer after the other in the caller's thread, and only while the caller waits."""

    width = 1

    def __init__(self, write: Write) -> None:
        self._write = write
        self._asked: deque[Request] = deque()
        self._now: Request | None = None
        self._stream: Iterator[Chunk] = iter(())

    def add(self, request: Request) -> None:
        """Ask for one more answer."""
        self._asked.append(request)

    def receive(self, timeout: float | None = None) -> Written | None:
        """Return the next piece, however long it takes; None for a mere look, or when nothing was asked for."""
        if timeout == 0:
            return None
        if self._now is None:
            if not self._asked:
                return None
            self._now = self._asked.popleft()
            self._stream = iter(())
            try:
                self._stream = self._write(self._now)
            except Exception as fault:
                return self._end(fault)
        try:
            chunk = next(self._stream, None)
        except Exception as fault:
            return self._end(fault)
        return Written(self._now.candidate, chunk) if chunk else self._end()

    def close(self) -> None:
        """Stop the answer that is being written."""
        close = getattr(self._stream, "close", None)
        if close:
            close()

    def _end(self, fault: Exception | None = None) -> Written:
        assert self._now is not None
        ended, self._now = self._now.candidate, None
        return Written(ended, fault=fault)


class Threads:
    """Each answer in a thread that mostly waits for a network; `stop` makes the threads end.

    The threads are daemons: one that does not notice the end is left behind and its pieces are dropped.
    `prepare` is done with each request in the caller's own thread, before it is given to one of these.
    """

    def __init__(
        self, write: Write, width: int, stop: Callable[[], None], prepare: Callable[[Request], object] = lambda _: None,
        *, disturbs: bool = False,
    ) -> None:  # fmt: skip
        self.width, self.disturbs = width, disturbs
        self._write, self._stop, self._prepare = write, stop, prepare
        self._asked: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._pieces: queue.SimpleQueue[Written] = queue.SimpleQueue()
        self._open = 0
        self._closed = False
        self._threads = 0

    def add(self, request: Request) -> None:
        """Ask for one more answer; it waits while `width` others are being written."""
        self._prepare(request)
        self._open += 1
        self._asked.put(request)
        if self._threads < min(self.width, self._open):
            self._threads += 1
            threading.Thread(target=self._work, daemon=True).start()

    def receive(self, timeout: float | None = None) -> Written | None:
        """Return the next piece of any answer."""
        if not self._open:
            return None
        try:
            piece = self._pieces.get(timeout != 0, timeout or None)
        except queue.Empty:
            return None
        if piece.chunk is None:
            self._open -= 1
        return piece

    def close(self) -> None:
        """End the writing of all answers."""
        self._closed = True
        for _ in range(self._threads):
            self._asked.put(None)
        self._stop()

    def _work(self) -> None:
        while (request := self._asked.get()) is not None:
            fault = None
            try:
                for chunk in self._write(request):
                    if self._closed:
                        return
                    self._pieces.put(Written(request.candidate, chunk))
            except Exception as error:  # crosses to the reader's thread, which raises it or goes on without
                fault = error
            self._pieces.put(Written(request.candidate, fault=fault))
