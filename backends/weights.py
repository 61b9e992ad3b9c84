"""A causal language model of this machine, by transformers: found offline, loaded once, drawn from in batches.

Heavy: imported only where a model runs, which is a child of the terminal or a Python user's own process.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from backends import BackendUnavailable
from backends.generation import Generation, OutOfMemory, Sampling
from backends.model_files import device_named, find, load, own_template, unavailable
from backends.model_name import ModelName, read, wants_raw_prompt

__all__ = ["OutOfMemory", "Sampling", "Weights"]


class Weights:
    """A loaded model and its tokenizer; `template` is the prompt that the model's own folder brings, or None."""

    def __init__(self, name: str, device: str = "auto") -> None:
        wanted = read(name)
        self.folder, self.file = find(wanted.name)
        self.device = device_named(device)
        self.tokenizer, self.model = load(wanted, self.folder, self.file, self.device)
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self.tokenizer.padding_side = "left"
        self.template = own_template(self.folder)
        self.chats = bool(self.tokenizer.chat_template) and not self.template and not wants_raw_prompt(wanted.name)
        """False for models tuned on a raw prompt, whatever chat template their base model left in the folder."""
        self.decoder = _decoder(self.model, self.device, wanted)

    def rows(self, prompts: Sequence[Any], sampling: Sampling) -> Generation:
        """Begin one answer for each prompt, a raw text or a chat, in one batch."""
        try:
            return Generation(self.model, self.tokenizer, self.tokens(prompts), sampling, self.decoder)
        except BackendUnavailable:
            raise
        except Exception as fault:
            raise unavailable(fault) from fault

    def tokens(self, prompts: Sequence[Any]) -> Any:
        """Return the ids of raw prompts, or of chats by the model's own chat template."""
        # A rendered chat holds its special tokens already; a raw prompt gets those that the tokenizer adds.
        raw = all(isinstance(prompt, str) for prompt in prompts)
        texts = [prompt if isinstance(prompt, str) else self._rendered(prompt) for prompt in prompts]
        encoded = self.tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=raw)
        return encoded.to(self.device)

    def _rendered(self, chat: Sequence[Any]) -> str:
        return str(self.tokenizer.apply_chat_template(list(chat), add_generation_prompt=True, tokenize=False))

    def stream(self, prompt: str | Sequence[Any], sampling: Sampling) -> Generator[str, None, str]:
        """Yield one answer's text without the prompt; return why it was cut off, or "". Closing stops the model."""
        pieces = self.rows([prompt], sampling).pieces()
        cut = ""
        try:
            for piece in pieces:
                if piece.text is None:
                    cut = piece.cut
                else:
                    yield piece.text
        except OutOfMemory as fault:
            raise BackendUnavailable(*no_room(self.device)) from fault
        except RuntimeError as fault:
            raise unavailable(fault) from fault
        finally:
            pieces.close()
        return cut


def no_room(device: str) -> tuple[str, str]:
    """Say that not even one answer fits, and what to do."""
    return f"{device} has no room for one answer beside the weights", "use MODEL#8bit or #4bit, or a smaller model"


def _decoder(model: Any, device: str, wanted: ModelName) -> Any:
    """Return the fast way of drawing where there is one: on a GPU, for models that allow it."""
    if not device.startswith("cuda") or wanted.decoding == "plain" or wanted.bits < 16:
        return None
    from backends.decode import Decoder, supports

    return Decoder(model, compiled=wanted.decoding == "compiled") if supports(model) else None
