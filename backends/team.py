"""Two backends in one turn: the first writes its one kernel, the second competes with it and is told of it."""

from __future__ import annotations

from collections.abc import Iterator

from backends import Backend, Chunk, Request


class Team:
    """Holds both; whoever draws from it asks each of them in turn."""

    def __init__(self, first: Backend, second: Backend) -> None:
        self.first, self.second = first, second
        self.name = f"{first.name}+{second.name}"

    def write(self, request: Request) -> Iterator[Chunk]:
        """Stream one candidate: the first is the first backend's, all others the second's."""
        return (self.second if request.candidate else self.first).write(request)

    def close(self) -> None:
        """Free what both hold."""
        self.first.close()
        self.second.close()
