"""The emitted file as `ruff format` leaves it, so that whoever keeps it and runs that formatter gets no difference."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SECTION = re.compile(r"(?<=\n)\n\n(?=\S)")
"""Two blank lines before something at the margin."""


def formatted(text: str) -> str:
    """Lay a file out as ruff does without configuration; where ruff is not installed it stays as it was written."""
    ruff = _ruff()
    if not ruff:
        return text
    command = [ruff, "format", "--isolated", "--quiet", "--no-cache", "--stdin-filename", "kernel.py", "-"]
    run = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    return run.stdout.decode() if run.returncode == 0 else text


def sections(text: str) -> Iterator[str]:
    """Cut a file before its functions and classes; the pieces joined are the file."""
    start = 0
    for gap in SECTION.finditer(text):
        yield text[start : gap.start()]
        start = gap.start()
    yield text[start:]


@cache
def _ruff() -> str:
    """Find ruff beside this Python, whether or not that environment is on the path."""
    beside = Path(sysconfig.get_path("scripts")) / "ruff"
    return str(beside) if beside.exists() else shutil.which("ruff") or ""
