"""The clock's child: what it takes over from the candidate's."""

from __future__ import annotations

from pathlib import Path

from verifier.stopwatch import take_over


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    """A shared library that this process has loaded would crash it if its file changed under it."""
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for folder, text in ((mine, "loaded"), (theirs, "another")):
        folder.mkdir()
        (folder / "cuda_utils.so").write_text(text)
    (theirs / "kernel.cubin").write_text("compiled")
    take_over(theirs, mine)
    assert (mine / "cuda_utils.so").read_text() == "loaded"
    assert (mine / "kernel.cubin").read_text() == "compiled"


def test_nothing_to_take_over_is_no_fault(tmp_path: Path) -> None:
    """What was compiled elsewhere is a shortcut: where it is missing, it is compiled once more."""
    take_over(tmp_path / "missing", tmp_path)
    assert list(tmp_path.iterdir()) == []
