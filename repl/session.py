"""The folder that keeps every turn: what was pasted, the kernel, the verdict. It works, unkept, on a read-only disk.

A session is a folder that a colleague can read: 01-problem.py, 01-kernel.py, 01-verdict.json, 02-...
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any


def state_folder() -> Path:
    """Return where this program keeps its state: $XDG_STATE_HOME/kernelllm on Linux."""
    from platformdirs import user_state_dir

    return Path(user_state_dir("kernelllm", appauthor=False))


class Session:
    """Writes each turn as it happens; the first failure to write is told once and ends the keeping."""

    def __init__(self, root: Path | None = None, warn: Callable[[str], None] = lambda _: None) -> None:
        self._root = root
        self._warn = warn
        self._broken = False
        self._turns = 0
        self.folder: Path | None = None

    def history(self) -> Path | None:
        """Return the file of the prompt's history, readable by its owner alone, or None."""
        path = self._home() / "history"

        def create() -> Path:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            return path

        return self._try(create)

    def begin(self, text: str) -> int:
        """Keep a paste before anything is done with it; return the number of the turn."""
        self._turns += 1
        self._write("problem.py", text)
        return self._turns

    def cleaned(self, paste: str, source: str) -> None:
        """Keep the problem that was read from the paste; a paste that was repaired stays beside it."""
        if source.strip() != paste.strip():
            self._write("paste.txt", paste)
            self._write("problem.py", source)

    def kernel(self, source: str) -> Path | None:
        """Keep the kernel of the turn, also a partial one."""
        return self._write("kernel.py", source)

    def aside(self, number: int, kernel: str, prose: str) -> None:
        """Keep what a candidate came to that is not the kernel of the turn: its file, or what it says instead."""
        if kernel.strip():
            self._write(f"candidate-{number}.py", kernel)
        elif prose.strip():
            self._write(f"candidate-{number}.md", prose)

    def reasoning(self, text: str) -> None:
        """Keep what the model thought."""
        self._write("reasoning.md", text)

    def verdict(self, data: dict[str, Any]) -> None:
        """Keep what the turn came to."""
        self._write("verdict.json", json.dumps(data, indent=1, ensure_ascii=False) + "\n")

    def path(self, name: str) -> Path | None:
        """Return where the turn keeps the file of this name, when it is kept."""
        return self.folder / f"{self._turns:02d}-{name}" if self.folder else None

    def _write(self, name: str, text: str) -> Path | None:
        def write() -> Path:
            self.folder = self.folder or self._new_folder()
            path = self.folder / f"{self._turns:02d}-{name}"
            # Bytes: a paste's own line ends stay, and so do bytes that were no UTF-8 (as surrogates).
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
            return path

        return self._try(write)

    def _new_folder(self) -> Path:
        parent = self._home() / "sessions"
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        stamp = datetime.now().strftime("%Y-%m-%dT%H-%M")
        for number in range(1, 1000):
            folder = parent / (stamp if number == 1 else f"{stamp}-{number}")
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            return folder
        raise OSError(f"{parent} has 1000 sessions of this minute")

    def _home(self) -> Path:
        self._root = self._root or state_folder()
        return self._root

    def _try(self, action: Callable[[], Path]) -> Path | None:
        if self._broken:
            return None
        try:
            return action()
        except OSError as error:
            self._broken = True
            self._warn(f"nothing is kept: {error.strerror or error} ({error.filename or self._home()})")
            return None
