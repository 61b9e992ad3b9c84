"""Markdown: finds the fenced blocks that hold the module and leaves the prose out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from verifier.paste.lines import Lines

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*\{?\.?([\w+#.-]*)(.*)$")
_PYTHON = frozenset("python py python3 py3 ipython ipython3 pycon pytorch torch diff patch".split())
_DEFINES = re.compile(r"^[ \t>+.]*(?:class|def|import|from)\s", re.MULTILINE)
_CLASS = re.compile(r"^[ \t>+.]*class[ \t]+(\w+)", re.MULTILINE)
BLOCKS, TRIES = 40, 12
"""Blocks looked at, and closing fences tried for each: a docstring may hold fences of its own."""


@dataclass(frozen=True)
class Block:
    """The lines between two fences and the language that was named."""

    lines: Lines
    language: str


def unfenced(lines: Lines, parses: Callable[[Lines], bool]) -> Lines | None:
    """Join the Python blocks of a Markdown text in order, or None where there is no fence."""
    if not any(_FENCE.match(text) for text in lines.texts):
        return None
    blocks = list(islice(_blocks(lines, parses), BLOCKS))
    chosen = [b for b in blocks if b.language in _PYTHON] or [
        b for b in blocks if not b.language and _DEFINES.search(b.lines.text)
    ]
    whole = [b for b in chosen if parses(b.lines)]
    if any(_CLASS.search(b.lines.text) for b in whole):
        chosen = whole
    chosen = _without_second_versions(chosen)
    if not chosen:
        return None
    note = "took the Python block out of the Markdown text"
    if len(chosen) > 1:
        note = f"joined {len(chosen)} Python blocks of the Markdown text"
    return _joined(lines, chosen).noted(note)


def _blocks(lines: Lines, parses: Callable[[Lines], bool]) -> Iterator[Block]:
    index, end = 0, len(lines.texts)
    while index < end:
        fence = _FENCE.match(lines.texts[index])
        if fence is None or "`" in fence[3]:
            index += 1
            continue
        language = fence[2].lower()
        if not language and index and not any(_FENCE.match(text) for text in lines.texts[:index]):
            head = _cut(lines, 0, index)  # the copy began below the opening fence
            if _CLASS.search(head.text) and parses(head):
                yield Block(head, "python")
                index += 1
                continue
        closers = _closers(lines, index + 1, fence[1])
        close = closers[0] if closers else end
        if language in _PYTHON or not language:
            close = next((c for c in closers[:TRIES] if parses(_cut(lines, index + 1, c))), close)
        yield Block(_cut(lines, index + 1, close), language)
        index = close + 1


def _closers(lines: Lines, start: int, opener: str) -> list[int]:
    found = []
    for index in range(start, len(lines.texts)):
        fence = _FENCE.match(lines.texts[index])
        if (
            fence
            and not fence[2]
            and not fence[3].strip()
            and fence[1][0] == opener[0]
            and len(fence[1]) >= len(opener)
        ):
            found.append(index)
            if len(found) == TRIES:
                break
    return found


def _cut(lines: Lines, start: int, end: int) -> Lines:
    return Lines(lines.texts[start:end], lines.numbers[start:end]).trimmed()


def _without_second_versions(blocks: list[Block]) -> list[Block]:
    """Drop blocks that define a class again: an answer often shows the module before and after."""
    seen: set[str] = set()
    kept = []
    for block in blocks:
        names = set(_CLASS.findall(block.lines.text))
        if not names & seen:
            kept.append(block)
            seen |= names
    return kept


def _joined(lines: Lines, blocks: list[Block]) -> Lines:
    texts: list[str] = []
    numbers: list[int] = []
    for block in blocks:
        if texts:
            texts += ["", ""]
            numbers += [numbers[-1]] * 2
        texts += block.lines.texts
        numbers += block.lines.numbers
    return Lines(tuple(texts), tuple(numbers), lines.notes)
