"""From text to a syntax tree, quietly: every way to fail is a SyntaxError."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from functools import lru_cache

from verifier.paste.lines import Lines

LARGEST_CODE = 600_000
"""Characters of Python accepted: parsing more would hold up the prompt for seconds."""


@dataclass(frozen=True)
class Code:
    """Python that parses: its lines and its tree."""

    lines: Lines
    tree: ast.Module


@lru_cache(maxsize=4)
def tree(text: str) -> ast.Module:
    """Parse without warnings; every way to fail is a SyntaxError. The tree is shared: nobody may change it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in somebody's docstring is not our reader's business
            return ast.parse(text)
    except (RecursionError, MemoryError):
        raise SyntaxError("nested too deeply") from None
    except ValueError as fault:
        raise SyntaxError(str(fault)) from None


def parsed(lines: Lines) -> ast.Module | None:
    """Return the tree, or None where the lines are no Python."""
    if sum(map(len, lines.texts)) > LARGEST_CODE:
        return None
    try:
        return tree(lines.text)
    except SyntaxError:
        return None


def fault_line(text: str) -> int | None:
    """Return the line at which Python stops reading, None where it reads all."""
    try:
        tree(text)
    except SyntaxError as fault:
        return fault.lineno or 1
    return None


def shortened(text: str, width: int = 60) -> str:
    """Return the text on one line of limited width."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"
