"""What a child takes over of what an earlier one compiled."""

from __future__ import annotations

from pathlib import Path

from verifier.compiled_before import FOLDER, take_over


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    """A shared library that this process has loaded would crash it if its file changed under it."""
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for scratch, text in ((mine, "loaded"), (theirs, "another")):
        (scratch / FOLDER).mkdir(parents=True)
        (scratch / FOLDER / "cuda_utils.so").write_text(text)
    (theirs / FOLDER / "kernel.cubin").write_text("compiled")
    take_over(str(theirs), mine)
    assert (mine / FOLDER / "cuda_utils.so").read_text() == "loaded"
    assert (mine / FOLDER / "kernel.cubin").read_text() == "compiled"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """The candidate may have laid a link there, to a file that is none of its business."""
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    (tmp_path / "private").write_text("private")
    (theirs / FOLDER).mkdir(parents=True)
    (theirs / FOLDER / "kernel.cubin").symlink_to(tmp_path / "private")
    take_over(str(theirs), mine)
    assert (mine / FOLDER / "kernel.cubin").is_symlink()


def test_nothing_to_take_over_is_no_fault(tmp_path: Path) -> None:
    """What was compiled elsewhere is a shortcut: where it is missing, it is compiled once more."""
    take_over(str(tmp_path / "missing"), tmp_path)
    assert list(tmp_path.iterdir()) == []
