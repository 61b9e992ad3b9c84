"""A module inside something longer: quoted in a mail, indented below a sentence, above an error, within JSON."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from itertools import groupby

from verifier.paste.characters import clean
from verifier.paste.lines import Lines

OPENING = re.compile(
    r"(?:import [\w.]+( as \w+)?(, ?[\w.]+( as \w+)?)*\s*(#.*)?$|from [\w.]+ import |class \w+.*:|def \w+\(|@\w)"
)
"""Lines that only Python begins with."""
_QUOTED = re.compile(r"[ \t]*>(?!>>) ?")
_TRACE = "Traceback (most recent call last):"
_MODULE = re.compile(r"^[ \t]*class\s+\w+|nn\.\w+\(", re.MULTILINE)
DEPTH = 8
"""Levels of JSON looked into: a row of a dataset or a message of a chat has fewer."""


def from_string(lines: Lines) -> Lines | None:
    """Take the code out of a JSON text or a Python string, or None where there is none."""
    text = lines.text.strip()
    if not text.startswith(("{", "[", '"', "'")) or "\\n" not in text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            return None
    found = [part for part in _strings(value) if "\n" in part and _MODULE.search(part)]
    if not found:
        return None
    return clean(max(found, key=len)).noted(*lines.notes, "took the code out of the string it was in")


def _strings(value: object, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < DEPTH and isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part, depth + 1)


def unquoted(lines: Lines) -> Lines | None:
    """Take the > of quoted mail off, and leave out what is said around the quoted code."""
    quoted = [(i, match.end()) for i, text in enumerate(lines.texts) if (match := _QUOTED.match(text))]
    pairs = [(i, lines.texts[i][end:]) for i, end in quoted]
    bare = [text for text in lines.texts if text.strip() and not _QUOTED.match(text)]
    if not any(OPENING.match(text) for _, text in pairs) or any(OPENING.match(text) for text in bare):
        return None
    if not bare:  # lines without the mark are the blank ones
        pairs = [(i, _QUOTED.sub("", text, count=1)) for i, text in enumerate(lines.texts)]
        return lines.kept(pairs, "took the quoting > off every line")
    return lines.kept(pairs, "took the quoted lines, without their >")


def undented(lines: Lines, parses: Callable[[Lines], bool]) -> Lines | None:
    """Take the indented blocks of a text whose sentences begin at the margin, as in reStructuredText."""
    if any(OPENING.match(text) for text in lines.texts):
        return None
    blocks = []
    indented = groupby(enumerate(lines.texts), key=lambda pair: pair[1][:1].isspace() or not pair[1].strip())
    for inside, run in indented:
        pairs = list(run)
        widths = [len(text) - len(text.lstrip()) for _, text in pairs if text.strip()]
        block = [(i, text[min(widths, default=0) :]) for i, text in pairs]
        if inside and any(OPENING.match(text) for _, text in block) and parses(lines.kept(block)):
            blocks += block
    return lines.kept(blocks, "took the indented code out of the text") if blocks else None


def untraced(lines: Lines) -> Lines | None:
    """Leave out the error messages of Python that stand around the code, or None where there are none."""
    kept, told, inside = [], "", False
    for index, text in enumerate(lines.texts):
        if text.startswith(_TRACE):
            inside, told = True, _TRACE
        elif inside and text[:1].strip():
            inside, told = False, text.strip()  # the error's own line ends its traceback
        elif not inside:
            kept.append((index, text))
    if not told or not any(OPENING.match(text) for _, text in kept):
        return None
    return lines.kept(kept, f"left out an error message: {told[:60]}")
