"""The process that holds a local model: batches of requests in, chunks out, and an ear for "stop" meanwhile."""

from __future__ import annotations

import os
import queue
import threading
from typing import Any

from backends import BackendUnavailable, Request


def serve(channel: Any) -> None:
    """Hold a model: the first message names it, every other one is a batch, or tells one to stop."""
    opening = channel.receive(None)
    if opening is None:
        return
    os.environ.update(opening["environment"])
    batches: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    stopped: set[int] = set()
    threading.Thread(target=_listen, args=(channel, batches, stopped), daemon=True).start()
    _use_cores(opening["environment"].get("OMP_NUM_THREADS"))
    weights = None
    while (batch := batches.get()) is not None:
        try:
            if weights is None:
                weights = _weights(opening["model"], opening["device"])
                channel.send({"chats": weights.chats, "on_gpu": weights.device != "cpu"})
            _answer(channel, weights, batch, stopped)
        except BackendUnavailable as fault:
            channel.send({"unavailable": [fault.message, fault.hint]})
        channel.send({"over": batch["batch"]})


def _answer(channel: Any, weights: Any, batch: dict[str, Any], stopped: set[int]) -> None:
    from backends.answers import answers

    requests = [Request(**{**request, "feedback": tuple(request["feedback"])}) for request in batch["requests"]]
    written = answers(weights, requests, batch["facts"])
    try:
        for piece in written:
            if batch["batch"] in stopped:
                return
            if piece.chunk is not None:
                channel.send({"of": piece.candidate, "chunk": [piece.chunk.kind, piece.chunk.text]})
            else:
                channel.send({"done": piece.candidate})
    finally:
        written.close()  # type: ignore[attr-defined]


def _listen(channel: Any, batches: queue.SimpleQueue[dict[str, Any] | None], stopped: set[int]) -> None:
    """Sort what comes in while the model is busy; the end of the conversation ends the process."""
    while (message := channel.receive(None)) is not None:
        if "stop" in message:
            stopped.add(message["stop"])
        else:
            batches.put(message)
    os._exit(0)


def _use_cores(wished: str | None) -> None:
    """Undo the one thread that suits the many small children beside this one."""
    import torch

    torch.set_num_threads(int(wished) if wished and wished.isdecimal() else os.cpu_count() or 1)


def _weights(model: str, device: str) -> Any:
    from backends.weights import Weights

    return Weights(model, device)
