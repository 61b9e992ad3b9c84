"""A kernel file becomes a module with parameters: executed, its ModelNew constructed, each failure named."""

from __future__ import annotations

import inspect
import sys
import traceback
import types
from pathlib import Path
from typing import Any

import torch

from verifier import cases, without_gpu
from verifier.interpreter import OutOfBounds
from verifier.launches import kernel_line

ENTRY = "ModelNew"
MESSAGE_LIMIT = 300
TRACE_LIMIT = 4000


class Refused(Exception):
    """The candidate failed; `code` is one of the verdict's codes, or not_interpretable."""

    def __init__(self, code: str, message: str, line: int | None = None, trace: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.line, self.trace = code, message, line, trace

    def described(self) -> dict[str, Any]:
        """Return the failure as JSON."""
        return {"code": self.code, "message": self.message, "line": self.line, "trace": self.trace}


def clean(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Make foreign text fit to show: one line, printable characters only, shortened."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: limit * 20]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def load_kernel(path: Path) -> types.ModuleType:
    """Execute the kernel file as a module; raise Refused."""
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    source = path.read_text(encoding="utf-8")
    try:
        with cases.no_stdin():
            exec(compile(source, str(path), "exec"), module.__dict__)
    except SyntaxError as error:
        raise Refused("syntax_error", clean(f"line {error.lineno}: {error.msg}"), error.lineno) from error
    except BaseException as error:
        raise refusal(error, str(path), "loading the kernel file") from error
    if not isinstance(getattr(module, ENTRY, None), type):
        classes = [
            name for name, value in vars(module).items() if isinstance(value, type) and value.__module__ == path.stem
        ]
        found = f"it defines {', '.join(classes)}" if classes else "it defines no class"
        raise Refused("no_modelnew", clean(f"the file defines no class {ENTRY}: {found}"))
    return module


def build(module: types.ModuleType, problem: types.ModuleType, seed: int, file: str, device: str) -> torch.nn.Module:
    """Construct ModelNew as the problem constructs its own module; raise Refused."""
    args, kwargs = cases.init_arguments(problem)
    entry = getattr(module, ENTRY)
    if not issubclass(entry, torch.nn.Module):
        raise Refused("no_modelnew", f"{ENTRY} is not an nn.Module")
    try:
        inspect.signature(entry).bind(*args, **kwargs)
    except TypeError as error:
        raise Refused(
            "signature_mismatch", clean(f"{ENTRY}'s constructor does not take the module's arguments: {error}")
        ) from error
    try:
        cases.seed_all(seed)
        with without_gpu.CpuForCuda() if device == "cpu" else cases.no_stdin():
            model: torch.nn.Module = entry(*args, **kwargs)
    except BaseException as error:
        raise refusal(error, file, f"constructing {ENTRY}") from error
    return model.to(device)


def refusal(error: BaseException, file: str, doing: str) -> Refused:
    """Turn what the candidate raised into a code, one line and its place."""
    code, text = _code(error)
    line = kernel_line(error, file)
    where = f", line {line}" if line else ""
    trace = "".join(traceback.format_exception(error, limit=-12))[-TRACE_LIMIT:]
    return Refused(code, clean(f"{doing}{where}: {text}"), line, "\n".join(map(_cleaned_row, trace.splitlines())))


def _cleaned_row(row: str) -> str:
    return row[: len(row) - len(row.lstrip())] + clean(row, 400)


def _code(error: BaseException) -> tuple[str, str]:
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    deepest = causes[-1] if type(error).__name__ in ("InterpreterError", "CompilationError") else error
    names = {type(cause).__name__ for cause in causes}
    text = f"{type(deepest).__name__}: {deepest}" if str(deepest) else type(deepest).__name__
    if isinstance(error, SystemExit):
        return "process_exit", f"the kernel file exits the program ({error.code!r})"
    if any(isinstance(cause, OutOfBounds) for cause in causes):
        return "out_of_bounds", str(next(cause for cause in causes if isinstance(cause, OutOfBounds)))
    if "NotInterpretable" in names or without_gpu.needs_gpu(text):
        return "not_interpretable", str(deepest)
    if (
        isinstance(error, MemoryError)
        or "not enough memory" in text
        or "out of memory" in text
        or "can't allocate" in text
    ):
        return "memory_limit", text
    if names & {"OutOfResources", "PTXASError"}:
        return "gpu_resources", text
    if names & {"CompilationError", "UnsupportedLanguageConstruct"}:
        return "compile_error", text
    if isinstance(error, (ImportError, AttributeError)) and isinstance(error, ImportError):
        return "import_error", text
    if "illegal memory access" in text or "misaligned address" in text:
        return "illegal_access", text
    return "runtime_error", text
