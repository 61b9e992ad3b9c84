"""Why a paste is refused, in words a person can act on."""

from __future__ import annotations


class NotAProblem(Exception):
    """The text cannot be made a problem; says what is wrong, where, and what to do.

    `code` is one of the error codes (empty, not_pytorch, syntax_error, truncated, ...), `line` counts from 1
    in the text as pasted, or is None. `message` never repeats the line number.
    """

    def __init__(self, code: str, message: str, hint: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.line = code, message, hint, line
