"""A language model's answer as it streams → prose, reasoning, code; and at its end, the one file that is meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from backends import Chunk
from backends.extract import FENCE, MODEL, PYTHON, extract, parses

_OPEN, _CLOSE = "<think>", "</think>"


def chunks(pieces: Iterable[str], cut: str = "") -> Iterator[Chunk]:
    """Turn a stream of text into chunks and end with the `final` file, and with `cut` when the answer was cut off."""
    splitter = Splitter()
    for piece in pieces:
        yield from splitter.feed(piece)
    yield from splitter.finish(cut)


class Splitter:
    """Sorts an answer piece by piece; a tag or a fence may be cut anywhere between two pieces."""

    def __init__(self, thinking: bool = False) -> None:
        self._whole: list[str] = []
        self._think = _ThinkTags(thinking)
        self._line = self._return = ""
        self._fence = ""
        self._is_code = False
        self._block: list[str] = []
        self._held = False
        self.answered = False
        """True once a fence closed after `class ModelNew`: what follows is over-generation."""

    def feed(self, piece: str) -> Iterator[Chunk]:
        """Take the next piece of text and yield what is decided about it."""
        piece = self._return + piece
        self._return = "\r" if piece.endswith("\r") else ""  # half a line end: its other half comes next
        piece = piece.removesuffix("\r").replace("\r\n", "\n")
        for thinking, text in self._think.feed(piece):
            if thinking:
                yield Chunk("reasoning", text)
            else:
                yield from self._sort(text)

    def finish(self, cut: str = "") -> Iterator[Chunk]:
        """Yield what was held back, the file that is meant, and why the answer ended early, if it did."""
        for thinking, text in self._think.flush():
            if thinking:
                yield Chunk("reasoning", text)
            else:
                yield from self._sort(text)
        if self._line:
            yield from self._end_of_line("")
        kernel = extract("".join(self._whole)) or ""
        yield Chunk("final", kernel)
        if not cut and self._fence and self._is_code and not parses(kernel):
            cut = "it ends in the middle of its code block"
        if cut:
            yield Chunk("cut", cut)

    def _sort(self, text: str) -> Iterator[Chunk]:
        """Lines are decided when complete, except that a line which cannot be a fence streams at once."""
        self._whole.append(text)
        *lines, rest = text.split("\n")
        for line in lines:
            self._line += line
            yield from self._end_of_line("\n")
        self._line += rest
        if self._line and not self._held and not _may_be_fence(self._line):
            self._held = True  # the start of this line is on its way: the rest follows as it comes
        if self._held and self._line:
            yield self._chunk(self._line)
            self._line = ""

    def _end_of_line(self, end: str) -> Iterator[Chunk]:
        line, self._line = self._line, ""
        streaming, self._held = self._held, False
        fence = None if streaming else FENCE.match(line)
        if fence and not self._fence:
            self._fence, self._is_code, self._block = fence[1], fence[2].lower() in PYTHON, []
        elif fence and self._closes(fence):
            self._fence = ""
            self.answered = self.answered or (self._is_code and bool(MODEL.search("".join(self._block))))
        else:
            yield self._chunk(line + end)

    def _closes(self, fence: re.Match[str]) -> bool:
        return fence[1][0] == self._fence[0] and len(fence[1]) >= len(self._fence) and not fence[2]

    def _chunk(self, text: str) -> Chunk:
        if not (self._fence and self._is_code):
            return Chunk("prose", text)
        self._block.append(text)
        return Chunk("code", text)


class _ThinkTags:
    """Separates <think> from the rest, holding back only what may be the start of a tag."""

    def __init__(self, thinking: bool) -> None:
        self._thinking = thinking
        self._rest = ""

    def feed(self, text: str) -> Iterator[tuple[bool, str]]:
        """Yield (is reasoning, text) for what is decided."""
        self._rest += text
        while True:
            tag = _CLOSE if self._thinking else _OPEN
            place = self._rest.find(tag)
            if place < 0:
                break
            if place:
                yield self._thinking, self._rest[:place]
            self._rest = self._rest[place + len(tag) :]
            self._thinking = not self._thinking
        keep = next((n for n in range(len(tag) - 1, 0, -1) if self._rest.endswith(tag[:n])), 0)
        ready, self._rest = self._rest[: len(self._rest) - keep], self._rest[len(self._rest) - keep :]
        if ready:
            yield self._thinking, ready

    def flush(self) -> Iterator[tuple[bool, str]]:
        """Yield what was held back."""
        rest, self._rest = self._rest, ""
        if rest:
            yield self._thinking, rest


def _may_be_fence(line: str) -> bool:
    start = line.lstrip(" \t")
    return not start or start[:3] in ("`", "``", "```", "~", "~~", "~~~")
