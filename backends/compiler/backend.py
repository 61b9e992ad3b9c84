"""`builtin` as a backend: asks a child process to compile, and passes its text on as it comes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from backends import BackendUnavailable, Chunk, NothingToConvert, Request, Spawn

PATIENCE = 60.0
"""Seconds a capture may take before it counts as hung: the largest networks need about 20."""


class Builtin:
    """The embedded compiler; every request runs in a fresh child, because it executes what was pasted.

    Candidates are schedules. What was found about earlier ones is not read: the next schedule is the answer to it.

    Without `spawn` it runs in this process, for those who asked for that.
    """

    name = "builtin"

    def __init__(self, spawn: Spawn | None) -> None:
        self.spawn = spawn

    def write(self, request: Request) -> Iterator[Chunk]:
        """Stream the file for a module; raise NothingToConvert with the reason where there is none."""
        if self.spawn is None:
            yield from _here(request)
            return
        child = self.spawn("backends.compiler.child:serve")
        try:
            wanted = ("source", "entry", "candidate", "precision")
            child.send({name: getattr(request, name) for name in wanted})
            while True:
                message = child.receive(PATIENCE)
                if message is None:
                    raise NothingToConvert(
                        "load_timeout",
                        f"the module did not finish loading and tracing in {PATIENCE:.0f} s, or it "
                        "ended the process that read it",
                        "Look for a loop or an exit at the top level.",
                    )
                if "error" in message:
                    raise NothingToConvert(**message["error"])
                if "done" in message:
                    return
                yield Chunk("code", message["code"])
        except OSError as fault:
            raise BackendUnavailable(
                f"the compiler's process ended: {fault}", "Try again; the session goes on."
            ) from fault
        finally:
            child.close()  # ends it without waiting for how it ended

    def close(self) -> None:
        """Nothing is held between requests."""


def _here(request: Request) -> Iterator[Chunk]:
    from backends.compiler.convert import convert
    from backends.compiler.schedule import offered

    schedules = offered(request.precision)
    with tempfile.TemporaryDirectory(prefix="kernelllm-") as folder:
        for section in convert(request.source, request.entry, Path(folder), request.candidate, schedules):
            yield Chunk("code", section)
