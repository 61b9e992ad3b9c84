"""Replays saved answers exactly: demos, tests and bug reports without a model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backends import BackendUnavailable, Chunk, NothingToConvert, Request
from backends.recording import mark_of
from backends.reply import chunks

_PIECE = re.compile(r"\s*\S+|\s+")


class Recorded:
    """Answers from a file, or from a folder one file a candidate in the order of their names.

    A `.py` file is a kernel and is streamed as code; a `.jsonl` file is a recording, of which each request gets the
    answer that it got then, or in their order the next that is left; any other is a model's answer, read as one.
    """

    name = "recorded"

    def __init__(self, path: str | None) -> None:
        if not path:
            raise BackendUnavailable("no recorded answer was named", "--model FILE_OR_FOLDER, or /model recorded PATH")
        self._path = Path(path)
        if not self._path.exists():
            raise BackendUnavailable(f"{path} does not exist", "--model names the file or folder of saved answers")
        self._tapes = _tapes(self._path) if self._path.suffix == ".jsonl" else None
        self._left: list[dict[str, Any]] = []
        self._last = ""

    def write(self, request: Request) -> Iterator[Chunk]:
        """Stream the answer saved for this candidate."""
        if self._tapes is not None:
            yield from self._replayed(request)
            return
        answers = self._answers()
        if request.candidate >= len(answers):
            message = f"{self._path} holds {_count(len(answers))}"
            raise NothingToConvert("no_more_answers", message, "record another, or lower -k")
        answer = answers[request.candidate]
        pieces = _PIECE.findall(_text(answer))
        if answer.suffix == ".py":
            yield from (Chunk("code", piece) for piece in pieces)
        else:
            yield from chunks(pieces)

    def close(self) -> None:
        """Nothing is held."""

    def _replayed(self, request: Request) -> Iterator[Chunk]:
        assert self._tapes is not None
        if request.source != self._last:
            self._left, self._last = list(self._tapes), request.source
        mark = mark_of(request)
        tape = next((tape for tape in self._left if tape["mark"] == mark), next(iter(self._left), None))
        if tape is None:
            message = f"{self._path} holds {_count(len(self._tapes))}, and all were replayed"
            raise NothingToConvert("no_more_answers", message, "record another, or lower -k")
        self._left.remove(tape)
        yield from (Chunk(kind, text) for _, kind, text in tape["chunks"])
        if tape["fault"]:
            fault = dict(tape["fault"])
            kind = NothingToConvert if fault.pop("kind") == "NothingToConvert" else BackendUnavailable
            raise kind(**fault)

    def _answers(self) -> list[Path]:
        if self._path.is_file():
            return [self._path]
        return sorted(p for p in self._path.iterdir() if p.suffix in {".py", ".md", ".txt"} and p.is_file())


def _tapes(path: Path) -> list[dict[str, Any]]:
    """Read a recording; a line that was cut off when it was written is left out."""
    tapes = []
    for line in _text(path).splitlines():
        try:
            tape = json.loads(line)
            if isinstance(tape["chunks"], list) and "mark" in tape and "fault" in tape:
                tapes.append(tape)
        except (ValueError, KeyError, TypeError):
            continue
    if not tapes:
        raise BackendUnavailable(f"{path} holds no recording", "--record FILE makes one")
    return tapes


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise BackendUnavailable(f"{path} cannot be read: {fault}", "give a UTF-8 text file") from fault


def _count(answers: int) -> str:
    return "1 answer" if answers == 1 else f"{answers} answers"
