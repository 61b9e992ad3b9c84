"""Source in, sections of the new file out: the compiler's one entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

from backends import NothingToConvert
from backends.compiler import module
from backends.compiler.capture import DATA_DEPENDENT, Symbols, capture
from backends.compiler.ir import Program
from backends.compiler.lower import lower
from backends.compiler.schedule import SCHEDULES, Schedule


def convert(
    source: str, entry: str, folder: Path, candidate: int = 0, schedules: Sequence[Schedule] = SCHEDULES
) -> Iterator[str]:
    """Yield the Triton file for `entry`, section by section; raise NothingToConvert.

    `candidate` counts the schedules that give different files. The source is written into `folder`: torch.export
    names the user's lines from a real file.
    """
    path = folder / "problem.py"
    path.write_text(source, encoding="utf-8")
    begun = False
    try:
        if candidate == 0:
            for section in _written(path, entry, source, schedules[0]):
                begun = True
                yield section
            return
    except NothingToConvert as reason:
        if begun or reason.code != "not_convertible" or len(schedules) == 1:
            raise
    yield from _other(path, entry, source, candidate, schedules)


def _other(path: Path, entry: str, source: str, candidate: int, schedules: Sequence[Schedule]) -> list[str]:
    """Write the file by one schedule after another until the one that is asked for differs from all before it.

    A schedule by which all of the work would stay in PyTorch gives no file, the usual one included.
    """
    seen: list[list[str]] = []
    first: NothingToConvert | None = None
    for schedule in schedules:
        try:
            sections = list(_written(path, entry, source, schedule))
        except NothingToConvert as reason:
            first = first or reason
            continue
        if any(sections[1:] == known[1:] for known in seen):
            continue
        seen.append(sections)
        if len(seen) > candidate:
            return sections
    if not seen and first is not None:
        raise first
    known = "1 way" if len(seen) == 1 else f"{len(seen)} ways"
    raise NothingToConvert("no_more_candidates", f"builtin knows {known} to write this module, and has written them")


def _written(path: Path, entry: str, source: str, schedule: Schedule) -> Iterator[str]:
    return module.write(_program(path, entry, source, schedule), source, entry, schedule)


def _program(path: Path, entry: str, source: str, schedule: Schedule) -> Program:
    """Capture for any sizes; where the exporter or we cannot write those, for any batch, else for the file's own."""
    *wider, last = get_args(Symbols)
    for symbols in wider:
        try:
            return lower(capture(path, entry, symbols=symbols), source, schedule)
        except NothingToConvert as reason:
            if reason.code != "not_convertible" or reason.message == DATA_DEPENDENT:
                raise
    return lower(capture(path, entry, symbols=last), source, schedule)
