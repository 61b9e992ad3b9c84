"""What stops a verification that is not the kernel's fault: an exception for the person, with a code and a way out."""

from __future__ import annotations

import traceback


class VerificationError(Exception):
    """Nothing could be judged; says what happened, where in the pasted text, and what to do.

    `code` is one of the error codes (reference_error, missing_package, load_timeout, out_of_memory, ...).
    """

    def __init__(self, code: str, message: str, hint: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.line = code, message, hint, line


def line_in(error: BaseException, filename: str) -> int | None:
    """Return the deepest line of `filename` that the error passed through."""
    if isinstance(error, SyntaxError) and error.filename == filename:
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == filename]
    return lines[-1] if lines else None


def one_line(error: BaseException, limit: int = 300) -> str:
    """Describe an exception in one printable line."""
    text = " ".join(str(error).split())
    text = "".join(char for char in text if char.isprintable())
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def reference_failed(error: BaseException, filename: str, doing: str) -> VerificationError:
    """Turn what the pasted module raised into an error for the person."""
    line = line_in(error, filename)
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return VerificationError(
            "missing_package",
            f"the module imports {package}, which is not installed here",
            f"pip install {package}, or remove the import",
            line,
        )
    if isinstance(error, MemoryError) or "not enough memory" in str(error) or "out of memory" in str(error):
        return VerificationError(
            "out_of_memory",
            f"{doing} needs more memory than there is: {one_line(error)}",
            "make the sizes in get_inputs() smaller",
            line,
        )
    if isinstance(error, SystemExit):
        message = f"the module exits the program while {doing}"
        return VerificationError("reference_error", message, "remove the exit", line)
    message = f"{doing} failed: {one_line(error)}"
    return VerificationError("reference_error", message, "run it in plain PyTorch first", line)
