"""Changes to Python text by syntax node: the text that is not touched keeps its comments and its layout."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Protocol

from verifier.paste.lines import Lines


class Located(Protocol):
    """A node with a place in the text."""

    lineno: int
    col_offset: int
    end_lineno: int | None
    end_col_offset: int | None


@dataclass(frozen=True, order=True)
class Edit:
    """Replace a stretch of text, given by lines from 1 and columns in characters, by `text`."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


def replacing(lines: Lines, node: Located, text: str) -> Edit:
    """Put `text` in the place of a node."""
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return Edit(
        node.lineno, _characters(lines, node.lineno, node.col_offset), end_line,
        _characters(lines, end_line, end_column), text,
    )  # fmt: skip


def dropping(lines: Lines, statement: ast.stmt) -> Edit:
    """Drop a statement and its decorators; one that shares its line with others becomes `pass`."""
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(d.lineno for d in decorators)])
    edit = replacing(lines, statement, "pass")
    column = 0 if decorators and first < statement.lineno else edit.column
    before = lines.texts[first - 1][:column].strip()
    after = lines.texts[edit.end_line - 1][edit.end_column :].strip().lstrip(";").strip()
    if before or (after and not after.startswith("#")):
        return edit
    return Edit(first, 0, edit.end_line + 1, 0, "")


def applied(lines: Lines, edits: list[Edit]) -> Lines:
    """Make all edits at once; of two that overlap the outer one wins."""
    texts, numbers = list(lines.texts), list(lines.numbers)
    for edit in sorted(_outermost(edits), reverse=True):
        start, stop = edit.line - 1, edit.end_line
        if edit.end_column == 0 and not edit.text:  # whole lines
            del texts[start : stop - 1], numbers[start : stop - 1]
            _close_gap(texts, numbers, start)
            continue
        whole = texts[start][: edit.column] + edit.text + texts[stop - 1][edit.end_column :]
        new = whole.split("\n")
        texts[start:stop] = new
        numbers[start:stop] = [numbers[start]] * len(new)
    return Lines(tuple(texts), tuple(numbers), lines.notes).trimmed()


def _close_gap(texts: list[str], numbers: list[int], at: int) -> None:
    """Leave at most two blank lines where lines went out."""
    above = at
    while above and not texts[above - 1].strip():
        above -= 1
    below = at
    while below < len(texts) and not texts[below].strip():
        below += 1
    allowed = max(at - above, below - at) if at - above <= 2 and below - at <= 2 else 2
    surplus = (below - above) - allowed
    if surplus > 0:
        del texts[above : above + surplus], numbers[above : above + surplus]


def _outermost(edits: list[Edit]) -> list[Edit]:
    kept: list[Edit] = []
    for edit in sorted(set(edits), key=lambda e: (e.line, e.column, -e.end_line, -e.end_column)):
        last = kept[-1] if kept else None
        if last is None or (edit.line, edit.column) >= (last.end_line, last.end_column):
            kept.append(edit)
    return kept


def _characters(lines: Lines, line: int, column: int) -> int:
    """Convert a column in UTF-8 bytes, as ast counts, to characters."""
    text = lines.texts[line - 1]
    return column if text.isascii() else len(text.encode()[:column].decode("utf-8", "ignore"))
