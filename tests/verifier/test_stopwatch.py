"""The clock's child: what it takes over from the candidate's."""

from __future__ import annotations

import shutil
from pathlib import Path

from verifier.stopwatch import _copy_if_new


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    """A shared library that this process has loaded would crash it if its file changed under it."""
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for folder, text in ((mine, "loaded"), (theirs, "another")):
        folder.mkdir()
        (folder / "cuda_utils.so").write_text(text)
    (theirs / "kernel.cubin").write_text("compiled")
    shutil.copytree(theirs, mine, dirs_exist_ok=True, copy_function=_copy_if_new)
    assert (mine / "cuda_utils.so").read_text() == "loaded"
    assert (mine / "kernel.cubin").read_text() == "compiled"
