"""Every file that builtin offers for a problem: its schedules are looked up, so that new ones are measured too."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from backends import NothingToConvert
from backends.compiler.convert import convert
from backends.compiler.schedule import Schedule, offered


def files(text: str) -> dict[str, str]:
    """Write a problem by every schedule, less exact ones included: what the schedule says of itself → the file.

    A file that differs from an earlier one in its header alone is left out.
    """
    found: dict[str, str] = {}
    usual_first = sorted(offered("fast"), key=lambda schedule: schedule.name != "")
    for schedule in usual_first:
        try:
            file = written(text, schedule)
        except NothingToConvert:
            continue
        if _body(file) not in map(_body, found.values()):
            found[schedule.name or "usual"] = file
    return found


def written(text: str, schedule: Schedule) -> str:
    """Write a problem by one schedule; raise NothingToConvert."""
    with tempfile.TemporaryDirectory() as folder:
        return "".join(convert(text, "Model", Path(folder), schedules=[schedule]))


def with_tiles(file: str, chooser: str, tiles: Sequence[tuple[int, ...]]) -> dict[str, str]:
    """Define the function that chooses a file's tile again behind it, once for each tile."""
    return {f"{chooser} {tile}": f"{file}\n\ndef {chooser}(*_):\n    return {tile}\n" for tile in tiles}


def _body(file: str) -> str:
    return file.partition("import torch")[2]
