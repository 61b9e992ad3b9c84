"""`local`: a language model of this machine as a backend; it lives in a child, or here when there is no `spawn`."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import asdict
from typing import Any

from backends import BackendUnavailable, Child, Chunk, Request, Spawn
from backends.prompt import messages, raw
from backends.reply import Splitter

DEFAULT_MODEL = "facebook/KernelLLM"

MAX_NEW_TOKENS = 4096

_PLACES = ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "HOME")
"""Where a model may be cached; the child's own environment is an empty one."""


class Local:
    """Draws answers from a local model, loaded at the first request and kept until `close`."""

    name = "local"

    def __init__(
        self, model: str | None, device: str = "auto", spawn: Spawn | None = None, *, weights: Any = None
    ) -> None:
        self._model, self._device, self._spawn = model or DEFAULT_MODEL, device, spawn
        self._child: Child | None = None
        self._weights = weights

    def write(self, request: Request) -> Iterator[Chunk]:
        """Stream one answer; raise BackendUnavailable when the model is not here or does not fit."""
        if self._spawn is None:
            if self._weights is None:
                yield Chunk("status", f"loading {self._model}")
                self._weights = _weights(self._model, self._device)
            yield from answer(self._weights, request)
        else:
            yield from self._from_child(request, self._spawn)

    def close(self) -> None:
        """Free the model."""
        if self._child:
            self._child.close()
        self._child = self._weights = None

    def _from_child(self, request: Request, spawn: Spawn) -> Iterator[Chunk]:
        if self._child is None:
            yield Chunk("status", f"loading {self._model}")
            self._child = spawn("backends.local:serve")
            places = {name: os.environ[name] for name in _PLACES if name in os.environ}
            self._child.send({"model": self._model, "device": self._device, "environment": places})
        child = self._child
        finished = False
        try:
            child.send(asdict(request))
            for reply in _replies(child):
                if "chunk" in reply:
                    yield Chunk(*reply["chunk"])
                elif "unavailable" in reply:
                    raise BackendUnavailable(*reply["unavailable"])
            finished = True
        finally:
            if not finished:
                # A model cannot be asked to stop faster than it can be ended: the next request loads it again.
                self.close()


def serve(channel: Any) -> None:
    """Hold a model in a child: the first message names it, every other one is a request."""
    opening = channel.receive(None)
    if opening is None:
        return
    os.environ.update(opening["environment"])
    _use_all_cores()
    weights = None
    while (message := channel.receive(None)) is not None:
        try:
            weights = weights or _weights(opening["model"], opening["device"])
            request = Request(**{**message, "feedback": tuple(message["feedback"])})
            for chunk in answer(weights, request):
                channel.send({"chunk": [chunk.kind, chunk.text]})
            channel.send({"done": True})
        except BackendUnavailable as fault:
            channel.send({"unavailable": [fault.message, fault.hint]})


def answer(weights: Any, request: Request) -> Iterator[Chunk]:
    """Draw one answer and sort it; the model stops once the file is complete."""
    from backends.weights import Sampling

    first = request.candidate == 0
    sampling = Sampling(
        # The published figures of best-of-k were drawn at 1.0/0.97, single answers at 0.6/0.95.
        temperature=0.6 if first else 1.0,
        top_p=0.95 if first else 0.97,
        max_new_tokens=MAX_NEW_TOKENS,
        seed=request.seed + request.candidate,
        seconds=request.seconds,
    )
    splitter = Splitter()
    cut = yield from _sorted(weights.stream(prompt_for(weights, request), sampling), splitter)
    yield from splitter.finish(cut)


def prompt_for(weights: Any, request: Request) -> Any:
    """Return the request as this model is asked: a chat, or the raw text it was tuned on."""
    return messages(request) if weights.chats else raw(request.source, weights.template)


def _sorted(pieces: Generator[str, None, str], splitter: Splitter) -> Generator[Chunk, None, str]:
    try:
        while not splitter.answered:
            yield from splitter.feed(next(pieces))
    except StopIteration as end:
        return str(end.value or "")
    finally:
        pieces.close()
    return ""


def _replies(child: Child) -> Iterator[dict[str, Any]]:
    while (reply := child.receive(None)) is not None:
        yield reply
        if "done" in reply:
            return
    raise BackendUnavailable("the model's process ended", "it may have run out of memory; use a smaller model")


def _use_all_cores() -> None:
    """Undo the one thread that suits the many small children beside this one."""
    import torch

    torch.set_num_threads(os.cpu_count() or 1)


def _weights(model: str, device: str) -> Any:
    from backends.weights import Weights

    return Weights(model, device)
