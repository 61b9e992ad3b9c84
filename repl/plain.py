"""A reader for terminals that cannot draw: whole lines, no escapes. A line with only "." or the end of input sends."""

from __future__ import annotations

import sys
from typing import TextIO

from repl.reading import goes_at_once

INVITATION = 'paste an nn.Module, then a line with only "."; /help lists the commands'


class PlainReader:
    """Reads submissions from a plain stream of lines."""

    folds = False

    def __init__(self, source: TextIO | None = None) -> None:
        self._source = source or sys.stdin

    def read(self) -> str:
        """Return what was sent; raise EOFError when nothing is left."""
        lines: list[str] = []
        while line := self._source.readline():
            text = line.rstrip("\r\n")
            if text.strip() == ".":
                if any(lines):
                    break
                continue
            if goes_at_once(text) and not any(lines):
                return text
            lines.append(text)
        if not any(part.strip() for part in lines):
            raise EOFError
        return "\n".join(lines)
