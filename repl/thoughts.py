"""What a model thinks before it answers: its last lines while they come, one row of it afterwards."""

from __future__ import annotations

import time

LINES = 3


class Thoughts:
    """The reasoning of one answer as it comes."""

    def __init__(self) -> None:
        self._text = ""
        self._began = 0.0

    def add(self, text: str) -> list[str]:
        """Take the next piece; return the lines to show now."""
        self._began = self._began or time.monotonic()
        self._text += text
        lines = [line for line in self._text[-2000:].splitlines() if line.strip()]
        return lines[-LINES:]

    def fold(self) -> str:
        """Return the row that stays, once; "" when nothing was thought since the last time."""
        if not self._text.strip():
            return ""
        seconds, words = time.monotonic() - self._began, len(self._text.split())
        self._text, self._began = "", 0.0
        return f"thought for {seconds:.0f} s · {words} words · /show reasoning"
