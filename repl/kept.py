"""The file of a batch's results, one JSON line each, from which a later run goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from repl.arguments import Settings
from repl.sources import Unreadable
from repl.tally import Result
from repl.turn import USAGE, Trouble, Turn

Keep = Callable[[str, Result], None]


def key(settings: Settings, file: Path) -> str:
    """What must be the same for an earlier result to stand: the file's bytes, the backend and the options."""
    asked = replace(settings, paths=(), output=None, json=False, plain=False, theme=None, jobs=0, record=None)
    try:
        content = file.read_bytes()
    except OSError:
        content = b""  # reading it as a problem will say why
    return hashlib.sha256(repr(asked).encode() + b"\0" + content).hexdigest()[:16]


def is_lasting(turn: Turn) -> bool:
    """Tell whether the result would be the same the next time; a missing backend or a Ctrl-C would not."""
    return turn.error is None or turn.error.exit_code == USAGE


def earlier(settings: Settings) -> dict[str, Result]:
    """Read the results of an earlier run; a line that was cut off when it was ended is left out."""
    if not settings.output or not Path(settings.output).exists():
        return {}
    known = {}
    for line in _text_of(settings.output).splitlines():
        try:
            kept = json.loads(line)
            known[kept["key"]] = kept["result"]
        except (ValueError, KeyError, TypeError):
            continue
    return known


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as fault:
        message = f"{path} cannot be read: {fault.strerror}"
        raise Unreadable(Trouble("unreadable", message, "give --output a file")) from fault


@contextmanager
def output(settings: Settings) -> Iterator[Keep]:
    """Open the results file for the run and yield what adds a result to it."""
    if not settings.output:
        yield lambda key, result: None
        return
    with _appending(settings.output) as file:
        if file.tell():
            file.write("\n")  # ends a line that was cut off; an empty line says nothing

        def keep(key: str, result: Result) -> None:
            file.write(json.dumps({"key": key, "result": result}, ensure_ascii=False) + "\n")
            file.flush()

        yield keep


def _appending(path: str) -> TextIO:
    try:
        return Path(path).open("a", encoding="utf-8")
    except OSError as fault:
        message = f"{path} cannot be written: {fault.strerror}"
        raise Unreadable(Trouble("unwritable", message, "give --output another file")) from fault
