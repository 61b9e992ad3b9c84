"""`local`: a language model of this machine as a backend; it lives in a child, or here when there is no `spawn`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from backends import BackendUnavailable, Child, Chunk, Drawing, Request, Spawn
from backends.briefing import Briefing
from backends.gguf import convert_elsewhere, is_converted
from backends.local_drawing import Here, InChild
from backends.model_files import check_whole, find
from backends.model_name import from_anywhere

DEFAULT_MODEL = "facebook/KernelLLM"

ROWS = 32
"""Answers in one batch, at most; what does not fit into memory is halved."""

STOP_SECONDS = 10.0
"""How long a model that was told to stop may take to do so before its process is ended."""

_PLACES = ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "HOME", "OMP_NUM_THREADS")
"""Where a model may be cached, and how many cores it may use; the child's own environment is an empty one."""


class Local:
    """Draws answers from a local model, loaded at the first request and kept until `close`."""

    name = "local"

    def __init__(
        self, model: str | None, device: str = "auto", spawn: Spawn | None = None, *, weights: Any = None,
        download: bool = False,
    ) -> None:  # fmt: skip
        self.model, self._device, self._spawn = model or DEFAULT_MODEL, device, spawn
        self._download = download
        self.briefing = Briefing(spawn)
        self.takes_feedback = True
        """False once the model is known to be tuned on one raw prompt: it is asked anew instead."""
        self.on_gpu = False
        self._weights = weights
        self._child: Child | None = None
        self._batches = 0
        self._stopping = False
        self._loaded = weights is not None

    def write(self, request: Request) -> Iterator[Chunk]:
        """Stream one answer; raise BackendUnavailable when the model is not here or does not fit."""
        drawing = self.draw(1)
        try:
            drawing.add(request)
            while (piece := drawing.receive()) is not None:
                if piece.fault:
                    raise piece.fault
                if piece.chunk is None:
                    return
                yield piece.chunk
        finally:
            drawing.close()

    def draw(self, width: int) -> Drawing:
        """Draw several answers at a time, all that are asked for together in one batch."""
        return InChild(self, min(width, ROWS)) if self._spawn else Here(self, min(width, ROWS))

    def close(self) -> None:
        """Free the model."""
        if self._child:
            self._child.close()
        self._child = self._weights = None
        self._loaded = False

    def weights(self) -> Any:
        """Load the model into this process, once."""
        if self._weights is None:
            from backends.weights import Weights

            self._weights = Weights(self.model, self._device)
            self._loaded = True
        return self._weights

    def arriving(self) -> Generator[str, None, None]:
        """Say in words what the person waits for until the model is loaded, fetching it where they agreed to that."""
        if self._loaded:
            return
        name = self.model.partition("#")[0]
        if self._child is not None:  # stopped while it was loading, and still at it
            yield f"loading {name}"
            return
        if self._download and not is_here(name):
            from backends.download import fetch

            yield from fetch(name)
        file = Path(name).expanduser()
        if self._spawn and file.suffix == ".gguf" and file.is_file() and not is_converted(file):
            yield f"converting {file.name}, once"
            convert_elsewhere(file)
        yield f"loading {name}"
        _check(name)  # a model that is not here is told before a process is started for it

    def ask(self, requests: list[Request]) -> Child:
        """Give the child a batch, starting it at the first; one that does not stop is ended and started anew."""
        if self._child is not None and self._stopping:
            self._settle(self._child)
        if self._child is None:
            assert self._spawn is not None
            self._child = self._spawn("backends.model_child:serve")
            places = {name: os.environ[name] for name in _PLACES if name in os.environ}
            self._child.send({"model": from_anywhere(self.model), "device": self._device, "environment": places})
        self._batches += 1
        facts = self.briefing.of(requests[0])
        self._child.send({"batch": self._batches, "requests": [asdict(r) for r in requests], "facts": list(facts)})
        return self._child

    def hear(self, reply: dict[str, Any]) -> None:
        """Take note of what the child says of the model once it is loaded."""
        if "chats" in reply:
            self._loaded, self.takes_feedback, self.on_gpu = True, reply["chats"], reply["on_gpu"]

    def stop(self) -> None:
        """Tell the child to end its batch; it does so within one token and keeps the model."""
        if self._child is not None:
            with contextlib.suppress(OSError):
                self._child.send({"stop": self._batches})
            self._stopping = True

    def _settle(self, child: Child) -> None:
        """Pass over what a stopped batch still sends; a model that is loading is left to it, or it would begin anew."""
        self._stopping = False
        while (reply := child.receive(STOP_SECONDS if self._loaded else None)) is not None:
            self.hear(reply)
            if reply.get("over") == self._batches:
                return
        self.close()


def is_here(name: str) -> bool:
    """Tell whether a model is on this machine, whole."""
    try:
        _check(name)
    except BackendUnavailable:
        return False
    return True


def _check(name: str) -> None:
    folder, file = find(name)
    if not file:
        check_whole(folder, name)
