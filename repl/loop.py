"""The prompt's life: read → convert → keep, until Ctrl-D."""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Protocol

from backends.presets import is_server
from repl.arguments import Settings
from repl.commands import Leave
from repl.desk import Desk, Parts
from repl.machine import has_gpu
from repl.terminal import Interrupts, quiet, unread


class Reader(Protocol):
    """Where submissions come from; `folds` tells that the last one was wiped from the screen."""

    folds: bool

    def read(self) -> str: ...


def run(settings: Settings, parts: Parts | None = None) -> int:
    """Serve the person until they leave; return the exit code. `parts` stands in for the module `repl.parts`."""
    plain = settings.plain or is_dumb(dict(os.environ))
    if not plain:
        try:
            return _serve_drawn(settings, parts)
        except _cannot_draw():
            plain = True
    return _serve_plain(settings, parts)


def is_dumb(environment: dict[str, str]) -> bool:
    """Tell whether the terminal says that it cannot draw."""
    return environment.get("TERM", "") in ("dumb", "unknown") and os.name == "posix"


def greeting(settings: Settings) -> str:
    """Return the first line: what this is, who writes, where it is judged, and where help is."""
    writer = settings.backend
    if settings.model:  # of a server its own name or its model's, of a path the last part
        place, _, model = settings.model.partition("#")
        host = place.partition("//")[2].partition("/")[0] or place
        writer = model or host if is_server(place) else Path(place).name
    return " · ".join(filter(None, ["KernelLLM", writer[:28], device(settings.options.device)[:28], "/help"]))


def device(wished: str) -> str:
    """Name the GPU as the driver lists it, without importing anything; "" when that cannot be told."""
    if wished == "cpu":
        return "cpu (interpreter)"
    for card in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        try:
            model = re.search(r"^Model:\s*(.+)$", card.read_text("utf-8", "replace"), re.M)
        except OSError:
            continue
        if model:
            return model[1].strip()
    return "" if has_gpu() or sys.platform != "linux" else "no GPU: Triton's interpreter"


def _serve_drawn(settings: Settings, parts: Parts | None) -> int:
    with quiet(), Interrupts() as interrupts, closing(Desk(settings, interrupts, parts)) as desk:
        typed = unread()
        from repl import commands
        from repl.editor import Editor
        from repl.highlight import prompt_style

        theme = prompt_style(desk.theme)
        print(greeting(settings), flush=True)
        editor = Editor(
            history=desk.session.history(),
            complete=commands.complete,
            theme=theme,
            ready=lambda: _begin(desk),
            typed=typed,
        )
        return _serve(desk, editor, editor.read)


def _serve_plain(settings: Settings, parts: Parts | None) -> int:
    from repl.plain import INVITATION, PlainReader

    with Interrupts() as interrupts, closing(Desk(settings, interrupts, parts, plain=True)) as desk:
        print(greeting(settings), INVITATION, sep="\n", flush=True)
        reader = PlainReader()
        desk.warm()
        return _serve(desk, reader, lambda: interrupts.pull(iter(reader.read, None)) or "")


def _serve(desk: Desk, reader: Reader, read: Callable[[], str]) -> int:
    """Take one submission after another; nothing but leaving ends it."""
    while True:
        try:
            text = read()
            desk.attempt(partial(desk.take, text, folds=reader.folds))
        except (EOFError, Leave):
            return 0
        except KeyboardInterrupt:
            desk.say("Ctrl-D leaves", "dim")


def _begin(desk: Desk) -> None:
    """Start what is slow, now that the prompt is drawn: the judge's process, and our own imports beside the typing."""
    desk.warm()
    names = ("verifier.paste.mends", "verifier.paste.reading", "repl.watch", "repl.convert", "repl.report")
    threading.Thread(target=lambda: [importlib.import_module(name) for name in names], daemon=True).start()


def _cannot_draw() -> tuple[type[BaseException], ...]:
    """The errors with which prompt_toolkit says that there is no console: only Windows has any."""
    if os.name == "posix":
        return ()
    win32 = importlib.import_module("prompt_toolkit.output.win32")
    return (win32.NoConsoleScreenBufferError,)
