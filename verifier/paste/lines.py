"""The lines of a paste on their way to Python: each remembers its number as pasted, so that errors can name it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Lines:
    """Numbered lines, and one note for everything that was done to them."""

    texts: tuple[str, ...]
    numbers: tuple[int, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, notes: tuple[str, ...] = ()) -> Lines:
        """Number the lines of a text from 1."""
        texts = tuple(text.split("\n"))
        return cls(texts, tuple(range(1, len(texts) + 1)), notes)

    @property
    def text(self) -> str:
        """The lines as one text that ends with a newline."""
        return "\n".join(self.texts) + "\n"

    def number(self, line: int | None) -> int | None:
        """Return where line `line` (from 1) of this text stood in the paste."""
        if not line or not self.numbers:
            return None
        return self.numbers[min(line, len(self.numbers)) - 1]

    def noted(self, *notes: str) -> Lines:
        """Add notes, each once."""
        return replace(self, notes=tuple(dict.fromkeys(self.notes + notes)))

    def kept(self, pairs: Iterable[tuple[int, str]], *notes: str) -> Lines:
        """Keep the lines at these indices with these texts, and say why."""
        pairs = list(pairs)
        texts, numbers = tuple(text for _, text in pairs), tuple(self.numbers[index] for index, _ in pairs)
        return Lines(texts, numbers, self.notes).noted(*notes)

    def trimmed(self) -> Lines:
        """Drop blank lines at both ends."""
        filled = [index for index, text in enumerate(self.texts) if text.strip()]
        if not filled:
            return replace(self, texts=(), numbers=())
        first, last = filled[0], filled[-1] + 1
        return replace(self, texts=self.texts[first:last], numbers=self.numbers[first:last])
