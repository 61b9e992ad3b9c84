"""A causal language model of this machine, by transformers: found offline, loaded once, streamed token by token.

Heavy: imported only where a model runs, which is a child of the terminal or a Python user's own process.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from backends import BackendUnavailable
from backends.model_files import device_named, find, load, own_template, unavailable


@dataclass(frozen=True)
class Sampling:
    """How an answer is drawn; a temperature of 0 takes the likeliest token each time."""

    temperature: float = 0.6
    top_p: float = 0.95
    max_new_tokens: int = 2048
    seed: int | None = None
    seconds: float | None = None


class Weights:
    """A loaded model and its tokenizer; `template` is the prompt that the model's own folder brings, or None."""

    def __init__(self, name: str, device: str = "auto") -> None:
        self.folder, self.file = find(name)
        self.device = device_named(device)
        self.tokenizer, self.model = load(name, self.folder, self.file, self.device)
        self.template = own_template(self.folder)
        self.chats = bool(self.tokenizer.chat_template) and not self.template and "kernelllm" not in name.lower()
        """False for models tuned on a raw prompt, whatever chat template their base model left in the folder."""

    def tokens(self, prompt: str | Sequence[Any]) -> Any:
        """Return the ids of a raw prompt, or of a chat by the model's own chat template."""
        if isinstance(prompt, str):
            encoded = self.tokenizer(prompt, return_tensors="pt")
        else:
            encoded = self.tokenizer.apply_chat_template(
                list(prompt), add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
        return encoded.to(self.device)

    def stream(self, prompt: str | Sequence[Any], sampling: Sampling) -> Generator[str, None, str]:
        """Yield the answer's text without the prompt; return why it was cut off, or "". Closing stops the model."""
        pieces: queue.Queue[str | BaseException | None] = queue.Queue()
        stopped = threading.Event()
        run = _Run(self, self.tokens(prompt), sampling, pieces, stopped)
        worker = threading.Thread(target=run, daemon=True)
        worker.start()
        try:
            while (piece := pieces.get()) is not None:
                if isinstance(piece, BaseException):
                    raise unavailable(piece) from piece
                yield piece
        finally:
            stopped.set()
            worker.join()
        return run.cut


class _Run:
    """One `generate` in a thread; every token's text goes through the queue as it comes."""

    def __init__(
        self, weights: Weights, encoded: Any, sampling: Sampling, pieces: queue.Queue[Any], stopped: threading.Event
    ) -> None:
        self.weights, self.encoded, self.sampling = weights, encoded, sampling
        self.pieces, self.stopped = pieces, stopped
        self.deadline = time.monotonic() + sampling.seconds if sampling.seconds else None
        self.text = Detokenizer(weights.tokenizer)
        self.started = False
        self.cut = ""

    def __call__(self) -> None:
        try:
            self._generate()
            self.pieces.put(self.text.rest())
            self.pieces.put(None)
        except BaseException as fault:  # crosses to the reader's thread, which raises it
            self.pieces.put(fault)

    def put(self, ids: Any) -> None:
        """Take the prompt first, then each new token (the streamer's interface)."""
        if self.started:
            self.pieces.put(self.text.add(ids.tolist()))
        self.started = True

    def end(self) -> None:
        """Nothing is buffered (the streamer's interface)."""

    def _late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _generate(self) -> None:
        import torch
        from transformers import StoppingCriteriaList

        def stop(ids: Any, scores: Any, **_: Any) -> Any:
            return torch.full((ids.shape[0],), self.stopped.is_set() or self._late(), device=ids.device)

        if self.sampling.seed is not None:
            torch.manual_seed(self.sampling.seed)
        room = self._room()
        with torch.inference_mode():
            ids = self.weights.model.generate(
                **self.encoded,
                **self._drawing(),
                max_new_tokens=room,
                streamer=self,
                stopping_criteria=StoppingCriteriaList([stop]),
            )
        if self._late():
            self.cut = "the time budget ended"
        elif ids.shape[1] - self.encoded["input_ids"].shape[1] >= room and not self._ended(int(ids[0, -1])):
            self.cut = f"it reached {room} tokens"

    def _drawing(self) -> dict[str, Any]:
        if self.sampling.temperature <= 0:
            return {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        return {"do_sample": True, "temperature": self.sampling.temperature, "top_p": self.sampling.top_p, "top_k": 0}

    def _room(self) -> int:
        """Return how many tokens fit: what was asked for, or what the context leaves."""
        prompt = int(self.encoded["input_ids"].shape[1])
        context = getattr(self.weights.model.config, "max_position_embeddings", None) or prompt + 1_000_000
        if prompt >= context:
            raise BackendUnavailable(
                f"the problem needs {prompt} tokens and the model reads {context}", "use a model with a longer context"
            )
        return min(self.sampling.max_new_tokens, context - prompt)

    def _ended(self, token: int) -> bool:
        ends = self.weights.model.generation_config.eos_token_id
        return token in (ends if isinstance(ends, list) else [ends])


class Detokenizer:
    """Ids → text as they come, equal to decoding all at once; a character cut between two ids waits for its end."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._start = self._shown = 0

    def add(self, ids: list[int]) -> str:
        """Return the text that these ids complete."""
        self._ids += ids
        text = self._new()
        if text.endswith("�"):
            return ""
        self._start, self._shown = self._shown, len(self._ids)
        return text

    def rest(self) -> str:
        """Return what was held back."""
        return self._new()

    def _new(self) -> str:
        # Decoding from a few tokens back keeps the spaces that a tokenizer drops at the start of a text.
        before = self._decode(self._ids[self._start : self._shown])
        return self._decode(self._ids[self._start :])[len(before) :]

    def _decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))
