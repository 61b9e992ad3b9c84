"""What Triton compiled for one child of a candidate need not be compiled again for the next one."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

FOLDER = "triton"
"""Of a child's scratch folder: where Triton keeps what it compiles there."""


def take_over(theirs: str, scratch: Path) -> None:
    """Copy what was compiled in another scratch folder: a shortcut, without which it is compiled once more.

    The candidate had that folder to itself, so links in it are left where they are.
    """
    with contextlib.suppress(OSError):
        shutil.copytree(
            Path(theirs, FOLDER), scratch / FOLDER, symlinks=True, dirs_exist_ok=True, copy_function=_copy_if_new
        )


def _copy_if_new(source: str, target: str) -> None:
    """Copy a file, unless there is one: a library that is loaded must not be written over."""
    if not os.path.lexists(target):
        shutil.copy2(source, target, follow_symlinks=False)
