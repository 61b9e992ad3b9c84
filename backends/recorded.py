"""Replays saved answers exactly: demos, tests and bug reports without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from backends import BackendUnavailable, Chunk, NothingToConvert, Request
from backends.reply import chunks

_PIECE = re.compile(r"\s*\S+|\s+")


class Recorded:
    """Answers from a file, or from a folder one file a candidate in the order of their names.

    A `.py` file is a kernel and is streamed as code; any other is a model's answer and is read as one.
    """

    name = "recorded"

    def __init__(self, path: str | None) -> None:
        if not path:
            raise BackendUnavailable("no recorded answer was named", "--model FILE_OR_FOLDER, or /model recorded PATH")
        self._path = Path(path)
        if not self._path.exists():
            raise BackendUnavailable(f"{path} does not exist", "--model names the file or folder of saved answers")

    def write(self, request: Request) -> Iterator[Chunk]:
        """Stream the answer saved for this candidate."""
        answers = self._answers()
        if request.candidate >= len(answers):
            message = f"{self._path} holds {len(answers)} answers"
            raise NothingToConvert("no_more_answers", message, "record another, or lower -k")
        answer = answers[request.candidate]
        try:
            text = answer.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as fault:
            raise BackendUnavailable(f"{answer} cannot be read: {fault}", "give a UTF-8 text file") from fault
        pieces = _PIECE.findall(text)
        if answer.suffix == ".py":
            yield from (Chunk("code", piece) for piece in pieces)
        else:
            yield from chunks(pieces)

    def close(self) -> None:
        """Nothing is held."""

    def _answers(self) -> list[Path]:
        if self._path.is_file():
            return [self._path]
        return sorted(p for p in self._path.iterdir() if p.suffix in {".py", ".md", ".txt"} and p.is_file())
