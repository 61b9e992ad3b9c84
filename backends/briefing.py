"""The facts of a module for a model's prompt: asked of a child once, and kept while the same module is worked on."""

from __future__ import annotations

from backends import Request, Spawn

PATIENCE = 30.0
"""Seconds for the facts: a prompt without them is better than a longer wait."""


class Briefing:
    """Remembers the facts of the newest module. Without `spawn` there are none: nothing pasted is executed here."""

    def __init__(self, spawn: Spawn | None) -> None:
        self._spawn = spawn
        self._known: tuple[str, tuple[str, ...]] = "", ()

    def of(self, request: Request) -> tuple[str, ...]:
        """Return one line a fact; nothing where they cannot be had."""
        if self._spawn is not None and self._known[0] != request.source:
            self._known = request.source, self._asked(request, self._spawn)
        return self._known[1]

    def _asked(self, request: Request, spawn: Spawn) -> tuple[str, ...]:
        child = spawn("backends.facts:serve")
        try:
            child.send({"source": request.source, "entry": request.entry})
            answer = child.receive(PATIENCE)
        except OSError:
            answer = None
        finally:
            child.close()
        return tuple(answer["facts"]) if answer else ()
