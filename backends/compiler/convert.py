"""Source in, sections of the new file out: the compiler's one entry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from backends import NothingToConvert
from backends.compiler import module
from backends.compiler.capture import DATA_DEPENDENT, capture
from backends.compiler.ir import Program
from backends.compiler.lower import lower


def convert(source: str, entry: str, folder: Path) -> Iterator[str]:
    """Yield the Triton file for `entry`, section by section; raise NothingToConvert.

    The source is written into `folder`: torch.export names the user's lines from a real file.
    """
    path = folder / "problem.py"
    path.write_text(source, encoding="utf-8")
    yield from module.write(_program(path, entry, source), source, entry)


def _program(path: Path, entry: str, source: str) -> Program:
    """Capture with symbolic sizes; where the exporter or we cannot write those, with the file's own."""
    try:
        return lower(capture(path, entry), source)
    except NothingToConvert as reason:
        if reason.code != "not_convertible" or reason.message == DATA_DEPENDENT:
            raise
        return lower(capture(path, entry, dynamic=False), source)
