"""Whoever writes kernels: text in, text out. A backend knows nothing of the verifier or of the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

ChunkKind = Literal["code", "prose", "reasoning", "status", "again", "repaired", "final", "cut"]


class BackendUnavailable(Exception):
    """A backend cannot serve here; says what is missing and what to do. Exit code 3."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class NothingToConvert(Exception):
    """The backend understood the module and can write no kernel for it; says why. Exit code 2."""

    def __init__(self, code: str, message: str, hint: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.line = code, message, hint, line


@dataclass(frozen=True)
class Request:
    """What a backend is asked for.

    `source` is a complete module defining the class `entry`, `get_inputs()` and `get_init_inputs()`.
    `candidate` counts from 0: a backend varies its answer by it (schedule, seed). `alone` tells that one answer is
    wanted and not the best of several: a model is then drawn from more carefully. `repeats` counts how often known
    answers came back. `feedback` holds what was found so far, newest last, in words, and `instructions` what the
    person asks for. `seconds` is how long the writing may take, and `max_tokens` how much a language model may write,
    thinking included. `precision` "fast" allows float32 to be as inexact as TF32 is.
    """

    source: str
    entry: str
    candidate: int = 0
    feedback: tuple[str, ...] = ()
    seed: int = 0
    seconds: float | None = None
    max_tokens: int | None = None
    alone: bool = True
    repeats: int = 0
    instructions: str = ""
    precision: str = "exact"


@dataclass(frozen=True)
class Chunk:
    """A piece of a streamed answer. All `code` chunks joined are the kernel file.

    A language model's answer is only understood at its end: a `final` chunk then replaces the code streamed
    so far, a `repaired` chunk says what was mended in it, and a `cut` chunk says why the answer ended before its
    end. `again` voids what was streamed: the answer begins anew.
    """

    kind: ChunkKind
    text: str


@dataclass(frozen=True)
class Written:
    """What became of one of several answers: its next chunk, the fault that ended it, or neither at its end."""

    candidate: int
    chunk: Chunk | None = None
    fault: Exception | None = None


class Drawing(Protocol):
    """Answers that go on being written while somebody is busy with one of them. Closing it stops them all.

    `width` is how many requests are worth having under way at a time. One that has a true `disturbs` writes on this
    machine's own GPU: nothing should be measured there meanwhile.
    """

    width: int

    def add(self, request: Request) -> None:
        """Ask for one more answer."""
        ...

    def receive(self, timeout: float | None = None) -> Written | None:
        """Return the next piece of any answer; None when none comes within the time, or none was asked for."""
        ...

    def close(self) -> None:
        """Stop the writing."""
        ...


class Child(Protocol):
    """A forked process that has torch imported and speaks JSON lines over its own socket.

    `receive` returns None when the time is over, or when the process is gone: then `channel.ended` is true.
    """

    @property
    def channel(self) -> Any: ...
    def send(self, message: dict[str, Any]) -> None: ...
    def receive(self, timeout: float | None = None) -> dict[str, Any] | None: ...
    def close(self) -> None: ...


Spawn = Callable[[str], Child]
"""Starts "package.module:function" in a fresh child; given to backends that execute the paste or need torch."""


class Backend(Protocol):
    """A source of candidates. Closing the iterator stops the writing."""

    name: str

    def write(self, request: Request) -> Iterator[Chunk]:
        """Stream one candidate; raise BackendUnavailable or NothingToConvert."""
        ...

    def close(self) -> None:
        """Free what the backend holds."""
        ...


def ahead(name: str) -> tuple[str, ...]:
    """Name what the children of a backend import, for a process that has time to do it before they are asked for."""
    if name.partition("+")[0] != "builtin":
        return ()
    from backends.compiler.ahead import MODULES

    return MODULES


def open(
    name: str, *, model: str | None = None, device: str = "auto", spawn: Spawn | None = None, download: bool = False
) -> Backend:
    """Open a backend by name; its heavy parts load at the first `write`, in a child where `spawn` is given.

    "builtin+NAME" lets NAME compete with builtin's kernel. `download` is the person's consent to fetch a local model.
    """
    if name.startswith("builtin+"):
        from backends.team import Team

        second = open(name.removeprefix("builtin+"), model=model, device=device, spawn=spawn, download=download)
        return Team(open("builtin", spawn=spawn), second)
    if name == "builtin":
        from backends.compiler.backend import Builtin

        return Builtin(spawn)
    if name == "local":
        from backends.local import Local

        return Local(model, device, spawn, download=download)
    if name == "server":
        from backends.server import Server

        return Server(model, spawn)
    if name == "recorded":
        from backends.recorded import Recorded

        return Recorded(model)
    raise BackendUnavailable(f"there is no backend {name!r}", "use builtin, local, server or recorded")
