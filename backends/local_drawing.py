"""Several answers of a local model in one batch: drawn in this process, or in the model's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from backends import BackendUnavailable, Child, Chunk, Request, Written

if TYPE_CHECKING:
    from backends.local import Local


class Here:
    """A batch in this very process; its thread goes on while nobody looks."""

    def __init__(self, local: Local, width: int) -> None:
        self.width = width
        self._local = local
        self._asked: list[Request] = []
        self._open: list[int] = []
        self._stream: Iterator[Written] = iter(())

    @property
    def disturbs(self) -> bool:
        """True when the model is on the GPU."""
        return self._local.on_gpu

    def add(self, request: Request) -> None:
        """Ask for one more answer: it joins the next batch."""
        self._asked.append(request)

    def receive(self, timeout: float | None = None) -> Written | None:
        """Return the next piece; None for a mere look, or when nothing was asked for."""
        if timeout == 0:
            return None
        if not self._open:
            if not self._asked:
                return None
            self._open, requests = [request.candidate for request in self._asked], self._asked
            self._asked, self._stream = [], self._written(requests)
        try:
            piece = next(self._stream)
        except BackendUnavailable as fault:
            return Written(self._open.pop(0), fault=fault)
        except StopIteration:
            return Written(self._open.pop(0), fault=BackendUnavailable("the model ended without an answer"))
        if piece.chunk is None:
            self._open.remove(piece.candidate)
        return piece

    def close(self) -> None:
        """Stop the batch."""
        close = getattr(self._stream, "close", None)
        if close:
            close()

    def _written(self, requests: list[Request]) -> Iterator[Written]:
        from backends.answers import answers

        for text in self._local.arriving():
            yield Written(requests[0].candidate, Chunk("status", text))
        weights = self._local.weights()
        self._local.takes_feedback, self._local.on_gpu = weights.chats, weights.device != "cpu"
        yield from answers(weights, requests, self._local.briefing.of(requests[0]))


class InChild:
    """Batches in the model's own process, one after the other; what is asked for meanwhile joins the next."""

    def __init__(self, local: Local, width: int) -> None:
        self.width = width
        self._local = local
        self._asked: list[Request] = []
        self._open: list[int] = []
        self._requests: list[Request] = []
        self._arriving: Generator[str, None, None] | None = None
        self._ready: deque[Written] = deque()
        self._child: Child | None = None

    @property
    def disturbs(self) -> bool:
        """True when the model is on the GPU."""
        return self._local.on_gpu

    def add(self, request: Request) -> None:
        """Ask for one more answer."""
        self._asked.append(request)

    def receive(self, timeout: float | None = None) -> Written | None:
        """Return the next piece of any answer."""
        if not self._ready and self._child is None and self._arriving is None and self._asked:
            self._begin()
        if self._arriving is not None and not self._ready:
            self._arrive(self._arriving)
        while not self._ready and self._child is not None:
            reply = self._child.receive(timeout)
            if reply is None and timeout is not None and not self._child.channel.ended:
                return None
            self._sort(reply)
        return self._ready.popleft() if self._ready else None

    def close(self) -> None:
        """Stop the batch; the model stays loaded."""
        if self._arriving is not None:
            self._arriving.close()
        if self._child is not None:
            self._child = None
            self._local.stop()

    def _begin(self) -> None:
        self._requests, self._asked = self._asked, []
        self._open = [request.candidate for request in self._requests]
        self._arriving = self._local.arriving()

    def _arrive(self, arriving: Generator[str, None, None]) -> None:
        """Wait for the model's files, telling how far they are; then give the child the batch."""
        try:
            self._ready.append(Written(self._open[0], Chunk("status", next(arriving))))
        except StopIteration:
            self._arriving = None
            try:
                self._child = self._local.ask(self._requests)
            except OSError:
                self._sort(None)
        except BackendUnavailable as fault:
            self._arriving = None
            self._fail(fault)

    def _sort(self, reply: dict[str, Any] | None) -> None:
        """Take one message of the child; None says that it is gone."""
        if reply is None:
            self._fail(BackendUnavailable("the model's process ended", "it may have run out of memory; use MODEL#8bit"))
            self._local.close()
        elif "unavailable" in reply:
            self._fail(BackendUnavailable(*reply["unavailable"]))
            self._local.stop()  # the child still says that the batch is over
        elif "chats" in reply:
            self._local.hear(reply)
        elif "chunk" in reply:
            self._ready.append(Written(reply["of"], Chunk(*reply["chunk"])))
        elif "done" in reply:
            self._open.remove(reply["done"])
            self._ready.append(Written(reply["done"]))
        elif "over" in reply:
            self._child = None

    def _fail(self, fault: BackendUnavailable) -> None:
        self._ready += [Written(candidate, fault=fault) for candidate in self._open]
        self._open, self._child = [], None
