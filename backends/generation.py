"""Several answers from one batched run in a thread: each row's text as it comes, stopped row by row or all at once."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from backends import BackendUnavailable
from backends.detokenizer import Detokenizer


@dataclass(frozen=True)
class Sampling:
    """How an answer is drawn; a temperature of 0 takes the likeliest token each time.

    `copies` tells that much of a single answer repeats its prompt, as a fix does: it is then drawn several tokens
    at a time where the model agrees with a copy. `limit` is what the person calls `max_new_tokens`.
    """

    temperature: float = 0.6
    top_p: float = 0.95
    max_new_tokens: int = 2048
    seed: int | None = None
    seconds: float | None = None
    copies: bool = False
    limit: str = "max_new_tokens"


@dataclass(frozen=True)
class Piece:
    """A piece of a row's text, or with `text` None its end and why it was cut off, "" when it was not."""

    row: int
    text: str | None
    cut: str = ""


class OutOfMemory(Exception):
    """The device has no room for so many answers at a time."""


class Generation:
    """One run over a batch of prompts. `encoded` holds input_ids and attention_mask, padded on the left."""

    def __init__(self, model: Any, tokenizer: Any, encoded: Any, sampling: Sampling, decoder: Any = None) -> None:
        self._model, self._decoder, self._sampling = model, decoder, sampling
        self._ids, self._mask = encoded["input_ids"], encoded["attention_mask"]
        self._rows = [Detokenizer(tokenizer) for _ in range(self._ids.shape[0])]
        self._live = [True] * len(self._rows)
        self._pieces: queue.SimpleQueue[Piece | BaseException | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._deadline = time.monotonic() + sampling.seconds if sampling.seconds else None
        ends = model.generation_config.eos_token_id
        self._ends = set(ends if isinstance(ends, list) else [ends])
        self._room = self._fitting()
        self._drawn = 0
        self._started = False

    def pieces(self) -> Generator[Piece, None, None]:
        """Yield every row's text and end; closing stops the model and waits for its thread."""
        worker = threading.Thread(target=self._run, daemon=True)
        worker.start()
        try:
            while (piece := self._pieces.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            self._stopped.set()
            worker.join()

    def stop(self, row: int) -> None:
        """Want no more of one row; the others go on."""
        self._live[row] = False

    def put(self, ids: Any) -> None:
        """Take the prompt first, then each step's tokens (the streamer's interface)."""
        if self._started:
            tokens = ids.reshape(-1).tolist()
            steps = [tokens] if len(tokens) == len(self._rows) else [[token] for token in tokens]
            for step in steps:
                self._take(step)
        self._started = True

    def end(self) -> None:
        """Nothing is buffered (the streamer's interface)."""

    def _run(self) -> None:
        import torch

        try:
            if self._sampling.seed is not None:
                torch.manual_seed(self._sampling.seed)
            with torch.inference_mode():
                if self._decoder is not None:
                    self._decode()
                else:
                    self._generate()
            for row in range(len(self._rows)):
                if self._live[row]:
                    self._end(row, self._why_cut())
            self._pieces.put(None)
        except torch.OutOfMemoryError as fault:
            self._pieces.put(OutOfMemory(str(fault)))
        except BaseException as fault:  # crosses to the reader's thread, which raises it
            self._pieces.put(fault)

    def _decode(self) -> None:
        from backends.draw import Draw

        draw = Draw(self._sampling.temperature, self._sampling.top_p)
        for tokens in self._decoder.tokens(self._ids, self._mask, self._room, draw):
            self._take(tokens)
            if self._stopped.is_set() or self._late() or not any(self._live):
                return

    def _generate(self) -> None:
        import torch
        from transformers import StoppingCriteriaList

        def stop(ids: Any, scores: Any, **_: Any) -> Any:
            over = self._stopped.is_set() or self._late()
            return torch.tensor([over or not live for live in self._live], device=ids.device)

        self._model.generate(
            input_ids=self._ids,
            attention_mask=self._mask,
            max_new_tokens=self._room,
            streamer=self,
            stopping_criteria=StoppingCriteriaList([stop]),
            **self._drawing(),
        )

    def _drawing(self) -> dict[str, Any]:
        drawn = self._sampling
        copying = {"prompt_lookup_num_tokens": 10} if drawn.copies and len(self._rows) == 1 else {}
        if drawn.temperature <= 0:
            return {"do_sample": False, "temperature": None, "top_p": None, "top_k": None, **copying}
        return {"do_sample": True, "temperature": drawn.temperature, "top_p": drawn.top_p, "top_k": 0, **copying}

    def _take(self, tokens: Sequence[int]) -> None:
        self._drawn += 1
        for row, token in enumerate(tokens):
            if not self._live[row]:
                continue
            if token in self._ends:
                self._end(row, "")
            elif text := self._rows[row].add([token]):
                self._pieces.put(Piece(row, text))

    def _end(self, row: int, cut: str) -> None:
        self._live[row] = False
        if rest := self._rows[row].rest():
            self._pieces.put(Piece(row, rest))
        self._pieces.put(Piece(row, None, cut))

    def _why_cut(self) -> str:
        if self._late():
            return "the time budget ended"
        if self._drawn < self._room:
            return ""
        if self._room < self._sampling.max_new_tokens:
            return f"it filled the {self._room} tokens that the model's context leaves"
        return f"it reached {self._room} tokens ({self._sampling.limit})"

    def _late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def _fitting(self) -> int:
        """Return how many tokens fit: what was asked for, or what the context leaves."""
        prompt = int(self._ids.shape[1])
        context = getattr(self._model.config, "max_position_embeddings", None) or prompt + 1_000_000
        if prompt >= context:
            raise BackendUnavailable(
                f"the problem needs {prompt} tokens and the model reads {context}", "use a model with a longer context"
            )
        return int(min(self._sampling.max_new_tokens, context - prompt))
