"""Files and standard input → text. Whatever cannot be read is refused with a code, a reason and what to do."""

from __future__ import annotations

import sys
from pathlib import Path

from repl.turn import Trouble
from verifier.paste.characters import decoded
from verifier.problem import Problem

SIZE_LIMIT = 4 << 20
"""No module anybody wrote is 4 MB of text; a file that large is data given by mistake."""


class Unreadable(Exception):
    """Nothing could be read; carries what to tell the person."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


def read_problem(path: str | None) -> Problem:
    """Read and parse a problem from a file, or from standard input for None and "-"; raise Unreadable, NotAProblem."""
    return Problem.read(_bytes_of(path))


def read_text(path: str) -> str:
    """Read a file as what somebody would have pasted, in whatever encoding; raise Unreadable, NotAProblem."""
    return decoded(_bytes_of(path))[0]


def read_kernel(path: str) -> str:
    """Read a kernel file as it is; raise Unreadable."""
    data = _bytes_of(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        message = f"{path} is not UTF-8 text (byte {fault.start})"
        raise Unreadable(Trouble("unreadable", message, "give a Python file that defines ModelNew")) from None


def _bytes_of(path: str | None) -> bytes:
    if path is None or path == "-":
        return _standard_input()
    file = Path(path)
    if file.is_dir():
        raise Unreadable(Trouble("is_directory", f"{path} is a directory", "kernelllm bench DIR takes a directory"))
    try:
        with file.open("rb") as opened:
            data = opened.read(SIZE_LIMIT + 1)  # a device or a pipe has no size, and perhaps no end
    except FileNotFoundError:
        raise Unreadable(Trouble("missing_file", f"{path} does not exist", "check the path")) from None
    except (OSError, ValueError) as fault:  # ValueError: a name with a NUL in it
        reason = getattr(fault, "strerror", None) or str(fault)
        raise Unreadable(Trouble("unreadable", f"{path} cannot be read: {reason}", "check the path")) from None

    if len(data) > SIZE_LIMIT:
        message = f"{path} has more than {SIZE_LIMIT >> 20} MB"
        raise Unreadable(Trouble("too_large", message, "give the file that holds the module"))
    return data


def _standard_input() -> bytes:
    if sys.stdin is None or sys.stdin.closed:
        hint = "give a file, or pipe a module in: kernelllm < FILE"
        raise Unreadable(Trouble("empty", "standard input is closed", hint))
    if sys.stdin.isatty():
        print("paste an nn.Module, then Ctrl-D on an empty line", file=sys.stderr)
    try:
        return sys.stdin.buffer.read(SIZE_LIMIT)
    except OSError as fault:
        message = f"standard input cannot be read: {fault.strerror}"
        raise Unreadable(Trouble("unreadable", message, "give a file")) from None
