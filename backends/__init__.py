"""Whoever writes kernels: text in, text out. A backend knows nothing of the verifier or of the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

ChunkKind = Literal["code", "prose", "reasoning", "status", "final", "cut"]


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
    `candidate` counts from 0: a backend varies its answer by it (schedule, temperature, seed).
    `feedback` holds what failed so far, newest last, in words. `seconds` is how long the writing may take.
    """

    source: str
    entry: str
    candidate: int = 0
    feedback: tuple[str, ...] = ()
    seed: int = 0
    seconds: float | None = None


@dataclass(frozen=True)
class Chunk:
    """A piece of a streamed answer. All `code` chunks joined are the kernel file.

    A language model's answer is only understood at its end: a `final` chunk then replaces the code streamed
    so far, and a `cut` chunk says why the answer ended before its end.
    """

    kind: ChunkKind
    text: str


class Child(Protocol):
    """A forked process that has torch imported and speaks JSON lines over its own socket."""

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


def open(name: str, *, model: str | None = None, device: str = "auto", spawn: Spawn | None = None) -> Backend:
    """Open a backend by name; its heavy parts load at the first `write`, in a child where `spawn` is given."""
    if name == "builtin":
        from backends.compiler.backend import Builtin

        return Builtin(spawn)
    if name == "local":
        from backends.local import Local

        return Local(model, device, spawn)
    if name == "server":
        from backends.server import Server

        return Server(model)
    if name == "recorded":
        from backends.recorded import Recorded

        return Recorded(model)
    raise BackendUnavailable(f"there is no backend {name!r}", "use builtin, local, server or recorded")
