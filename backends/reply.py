"""A language model's answer as it streams → prose, reasoning, code; and at its end, the one file that is meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from backends import Chunk
from backends.extract import FENCE, MODEL, PYTHON, extract, parses
from backends.repair import repaired

_OPEN, _CLOSE = "<think>", "</think>"
_TAG = re.compile(f"{_OPEN}|{_CLOSE}")
_Part = Literal["reasoning", "text", "lone"]

CIRCLE_CHARACTERS, CIRCLES = 2400, 8
"""How much text must consist of one repeated passage, and how often: no kernel is written that way."""

LOOK_EVERY = 120
"""Characters between two looks for circles, which may well be drawn within one endless line."""


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
        self._tail = ""
        self._looked = 0
        self.cut = ""
        """Why the answer ends early, as far as that is known."""
        self.answered = False
        """True once nothing more is wanted: the fence closed after `class ModelNew`, or the answer goes in circles."""

    def feed(self, piece: str) -> Iterator[Chunk]:
        """Take the next piece of text and yield what is decided about it."""
        piece = self._return + piece
        self._return = "\r" if piece.endswith("\r") else ""  # half a line end: its other half comes next
        piece = piece.removesuffix("\r").replace("\r\n", "\n")
        for kind, text in self._think.feed(piece):
            yield from self._part(kind, text)
        self._tail = (self._tail + piece)[-CIRCLE_CHARACTERS:]
        self._looked += len(piece)
        if self._looked >= LOOK_EVERY:
            self._looked = 0
            if goes_in_circles(self._tail):
                self.answered, self.cut = True, "it repeats itself without end"

    def finish(self, cut: str = "") -> Iterator[Chunk]:
        """Yield what was held back, the file that is meant, and why the answer ended early, if it did."""
        for kind, text in self._think.flush():
            yield from self._part(kind, text)
        if self._line:
            yield from self._end_of_line("")
        cut = self.cut if self.answered else cut or self.cut
        kernel, mended = repaired(extract("".join(self._whole)) or "")
        for what in mended:
            yield Chunk("repaired", what)
        yield Chunk("final", kernel)
        if not cut and self._fence and self._is_code and not parses(kernel):
            cut = "it ends in the middle of its code block"
        if cut:
            yield Chunk("cut", cut)

    def _part(self, kind: _Part, text: str) -> Iterator[Chunk]:
        if kind == "reasoning":
            yield Chunk("reasoning", text)
        elif kind == "text":
            yield from self._sort(text)
        else:  # the tag was opened in the prompt: what came so far was reasoning
            thought = "".join(self._whole)
            self._whole, self._line, self._fence, self._held, self._is_code = [], "", "", False, False
            self.answered = False
            yield Chunk("again", "")
            yield Chunk("reasoning", thought)

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
        self._kind: _Part = "reasoning" if thinking else "text"
        self._seen = thinking
        self._rest = ""

    def feed(self, text: str) -> Iterator[tuple[_Part, str]]:
        """Yield what is decided; "lone" where a closing tag shows that all before it was reasoning."""
        self._rest += text
        while found := _TAG.search(self._rest):
            before, self._rest = self._rest[: found.start()], self._rest[found.end() :]
            if before:
                yield self._kind, before
            if found[0] == _CLOSE and self._kind == "text" and not self._seen:
                yield "lone", ""
            self._kind = "reasoning" if found[0] == _OPEN else "text"
            self._seen = True
        keep = next((n for n in range(len(_CLOSE) - 1, 0, -1) if self._rest.endswith((_OPEN[:n], _CLOSE[:n]))), 0)
        ready, self._rest = self._rest[: len(self._rest) - keep], self._rest[len(self._rest) - keep :]
        if ready:
            yield self._kind, ready

    def flush(self) -> Iterator[tuple[_Part, str]]:
        """Yield what was held back."""
        rest, self._rest = self._rest, ""
        if rest:
            yield self._kind, rest


def goes_in_circles(tail: str) -> bool:
    """Tell whether a text ends in one passage again and again: a model that will not stop by itself."""
    if len(tail) < CIRCLE_CHARACTERS:
        return False
    last = tail[-40:]
    before = tail.rfind(last, 0, -1)
    period = len(tail) - 40 - before
    return before >= 0 and period <= CIRCLE_CHARACTERS // CIRCLES and tail[period:] == tail[:-period]


def _may_be_fence(line: str) -> bool:
    start = line.lstrip(" \t")
    return not start or start[:3] in ("`", "``", "```", "~", "~~", "~~~")
