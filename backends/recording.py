"""Keeps what a backend is asked and what it answers, one JSON line an answer, so that it can be replayed exactly.

Reasoning is kept as well, and nothing of the connection: no address, no header, no key.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from backends import Backend, BackendUnavailable, Chunk, Drawing, NothingToConvert, Request, Written
from backends.drawing import drawing_of


def mark_of(request: Request) -> str:
    """Return what a request is recognised by: all that shapes the answer, the time it may take left out."""
    asked = {name: value for name, value in asdict(request).items() if name != "seconds"}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


class Recording:
    """Another backend, written down as it answers."""

    def __init__(self, backend: Backend, path: str) -> None:
        self.name = backend.name
        self._backend, self._path = backend, Path(path)
        try:
            self._path.open("a", encoding="utf-8").close()
        except OSError as fault:
            raise BackendUnavailable(f"{path} cannot be written: {fault.strerror}", "give --record a file") from fault

    @property
    def takes_feedback(self) -> bool:
        """The same as the backend's."""
        return bool(getattr(self._backend, "takes_feedback", True))

    def write(self, request: Request) -> Iterator[Chunk]:
        """Stream the backend's answer and keep it, also one that is stopped."""
        tape = _Tape(request)
        try:
            for chunk in self._backend.write(request):
                tape.add(chunk)
                yield chunk
        except (BackendUnavailable, NothingToConvert) as fault:
            tape.fault = fault
            raise
        finally:
            self.keep(tape)

    def draw(self, width: int) -> Drawing:
        """Draw from the backend and keep every answer as it ends."""
        return _Recorder(self, drawing_of(self._backend, width))

    def close(self) -> None:
        """Free what the backend holds."""
        self._backend.close()

    def keep(self, tape: _Tape) -> None:
        """Append one answer to the file."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(tape.to_dict(self.name), ensure_ascii=False) + "\n")


class _Tape:
    """One answer as it is recorded."""

    def __init__(self, request: Request) -> None:
        self.request, self.began = request, time.monotonic()
        self.chunks: list[tuple[float, str, str]] = []
        self.fault: Exception | None = None

    def add(self, chunk: Chunk) -> None:
        self.chunks.append((round(time.monotonic() - self.began, 3), chunk.kind, chunk.text))

    def to_dict(self, backend: str) -> dict[str, Any]:
        fault = self.fault
        expected = isinstance(fault, BackendUnavailable | NothingToConvert)
        told = {"kind": type(fault).__name__, **vars(fault)} if expected else None
        return {
            "mark": mark_of(self.request), "backend": backend, "request": asdict(self.request), "chunks": self.chunks,
            "fault": told,
        }  # fmt: skip


class _Recorder:
    """A drawing that is listened in on."""

    def __init__(self, recording: Recording, drawing: Drawing) -> None:
        self._recording, self._drawing = recording, drawing
        self._tapes: dict[int, _Tape] = {}
        self.width, self.disturbs = drawing.width, getattr(drawing, "disturbs", False)

    def add(self, request: Request) -> None:
        """Ask for one more answer."""
        self._tapes[request.candidate] = _Tape(request)
        self._drawing.add(request)

    def receive(self, timeout: float | None = None) -> Written | None:
        """Return the next piece of any answer, kept."""
        piece = self._drawing.receive(timeout)
        if piece is None:
            return None
        if piece.chunk is not None:
            self._tapes[piece.candidate].add(piece.chunk)
        else:
            tape = self._tapes.pop(piece.candidate)
            tape.fault = piece.fault
            self._recording.keep(tape)
        return piece

    def close(self) -> None:
        """Stop the writing; what was written so far is kept."""
        self._drawing.close()
        for tape in self._tapes.values():
            if tape.chunks:
                self._recording.keep(tape)
        self._tapes = {}
