"""What was pasted → Problem. Text and ast only: nothing is executed here and torch is not imported."""

from __future__ import annotations

from dataclasses import dataclass


class NotAProblem(Exception):
    """The text cannot be made a problem; says what is wrong, where, and what to do.

    `code` is one of the error codes (empty, not_pytorch, syntax_error, truncated, ...), `line` counts from 1
    in the text as pasted, or is None.
    """

    def __init__(self, code: str, message: str, hint: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.line = code, message, hint, line


@dataclass(frozen=True)
class Problem:
    """A PyTorch module that can be converted, as clean text.

    `source` is a complete Python module: executing it defines the class `entry` (an nn.Module),
    `get_inputs()` and `get_init_inputs()`. `notes` tell the person, one line each, what was repaired or guessed.
    """

    source: str
    entry: str
    forward_args: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name shown to people: the class's own."""
        return self.entry

    @property
    def lines(self) -> int:
        """Number of lines of the cleaned source."""
        return self.source.count("\n") + 1

    @classmethod
    def parse(cls, text: str) -> Problem:
        """Read a paste without executing it; raise NotAProblem."""
        raise NotAProblem("not_pytorch", "parsing is being written")
