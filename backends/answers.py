"""Requests → a batch on a loaded model → the chunks of each answer; a batch that does not fit is halved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from backends import BackendUnavailable, Chunk, Request, Written
from backends.generation import OutOfMemory, Sampling
from backends.model_files import unavailable
from backends.parameters import heat
from backends.prompt import messages, raw
from backends.reply import Splitter

MAX_NEW_TOKENS = 4096


def answers(weights: Any, requests: Sequence[Request], facts: Sequence[str] = ()) -> Iterator[Written]:
    """Draw all answers at once; each stops by itself once its file is complete. Raise BackendUnavailable."""
    waiting = list(requests)
    while waiting:
        most = min(getattr(weights, "most", len(waiting)), len(waiting))
        batch, waiting = waiting[:most], waiting[most:]
        finished: set[int] = set()
        try:
            for written in _batch(weights, batch, facts):
                if written.chunk is None:
                    finished.add(written.candidate)
                yield written
        except OutOfMemory as fault:
            again = [request for request in batch if request.candidate not in finished]
            weights.most = _halved(len(batch), weights.device, fault)
            _release(weights.device)
            for request in again:
                yield Written(request.candidate, Chunk("again", ""))
            said = f"out of memory with {len(batch)} answers at a time: {weights.most} from now on"
            yield Written(again[0].candidate, Chunk("status", said))
            waiting = again + waiting


def sampling_for(request: Request, seconds: float | None, *, raw: bool) -> Sampling:
    """Return how an answer is drawn."""
    temperature, top_p = heat(request, raw=raw)
    return Sampling(
        temperature=temperature,
        top_p=top_p,
        max_new_tokens=request.max_tokens or MAX_NEW_TOKENS,
        limit="--max-tokens",
        seed=request.seed + request.candidate,
        seconds=seconds,
    )


def prompt_for(weights: Any, request: Request, facts: Sequence[str] = ()) -> Any:
    """Return the request as this model is asked: a chat, or the raw text it was tuned on."""
    return messages(request, facts) if weights.chats else raw(request.source, weights.template)


def _batch(weights: Any, requests: Sequence[Request], facts: Sequence[str]) -> Iterator[Written]:
    prompts = [prompt_for(weights, request, facts) for request in requests]
    times = [request.seconds for request in requests if request.seconds is not None]
    sampling = sampling_for(requests[0], min(times, default=None), raw=not weights.chats)
    if len(requests) == 1 and requests[0].feedback:
        sampling = replace(sampling, copies=True)
    splitters = [Splitter() for _ in requests]
    generation = weights.rows(prompts, sampling)
    pieces = generation.pieces()
    open_ = set(range(len(requests)))
    try:
        for piece in pieces:
            if piece.row not in open_:
                continue
            splitter, candidate = splitters[piece.row], requests[piece.row].candidate
            if piece.text is not None:
                for chunk in splitter.feed(piece.text):
                    yield Written(candidate, chunk)
                if not splitter.answered:
                    continue
                generation.stop(piece.row)
            for chunk in splitter.finish(piece.cut):
                yield Written(candidate, chunk)
            open_.remove(piece.row)
            yield Written(candidate)
    except RuntimeError as fault:
        raise unavailable(fault) from fault
    finally:
        pieces.close()


def _halved(rows: int, device: str, fault: OutOfMemory) -> int:
    from backends.weights import no_room

    if rows == 1:
        raise BackendUnavailable(*no_room(device)) from fault
    return rows // 2


def _release(device: str) -> None:
    import gc

    import torch

    gc.collect()  # the tracebacks of the failed run hold its tensors
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
