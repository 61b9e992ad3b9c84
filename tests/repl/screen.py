"""A terminal in memory: what was written to it, as screen and scrollback."""

from __future__ import annotations

import io

import pyte
from rich.console import Console


class Screen(io.TextIOBase):
    """A pyte screen that a console writes to."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.written = ""
        self._open(columns, rows)

    def _open(self, columns: int, rows: int) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.1)
        self.screen.set_mode(pyte.modes.LNM)  # what the terminal driver does: a newline also returns
        self._stream = pyte.Stream(self.screen)

    def resize(self, columns: int, rows: int, *, reflow: bool) -> None:
        """Change the size as terminals do: rows too wide are wrapped anew (most) or cut (xterm)."""
        cursor = self.screen.cursor.y
        kept = self._past() + [row.rstrip() for row in self.screen.display[: cursor + 1]]
        self._open(columns, rows)
        self._stream.feed("\n".join(kept if reflow else [row[:columns] for row in kept]))

    def write(self, text: str) -> int:
        """Take what the console writes."""
        self.written += text
        self._stream.feed(text)
        return len(text)

    def isatty(self) -> bool:
        """Say that this is a terminal."""
        return True

    def console(self) -> Console:
        """Return a console of our kind on this screen."""
        size = self.screen.columns, self.screen.lines
        return Console(
            file=self, force_terminal=True, width=size[0], height=size[1], _environ={},  # type: ignore[arg-type]
            markup=False, emoji=False, highlight=False, soft_wrap=True,
        )  # fmt: skip

    def rows(self) -> list[str]:
        """Return scrollback and screen, top to bottom, without the empty rows at the end."""
        rows = [row.rstrip() for row in [*self._past(), *self.screen.display]]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def _past(self) -> list[str]:
        columns = range(self.screen.columns)
        return ["".join(row[column].data for column in columns).rstrip() for row in self.screen.history.top]


def unwrapped(rows: list[str], width: int) -> str:
    """Join rows that the terminal wrapped at its width."""
    text = ""
    for row in rows:
        text += row if len(row) == width else row + "\n"
    return text
