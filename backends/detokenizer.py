"""Ids → text as they come, equal to decoding all at once; a character cut between two ids waits for its end."""

from __future__ import annotations

from typing import Any


class Detokenizer:
    """The text of one answer."""

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
