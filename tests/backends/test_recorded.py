"""Saved answers are replayed exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

import backends
from backends import BackendUnavailable, NothingToConvert, Request

KERNEL = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
REQUEST = Request("source", "Model")


def test_a_python_file_is_the_kernel(tmp_path: Path) -> None:
    """All code chunks joined are the file, byte for byte."""
    (tmp_path / "k.py").write_text(KERNEL)
    recorded = backends.open("recorded", model=str(tmp_path / "k.py"))
    chunks = list(recorded.write(REQUEST))
    assert {chunk.kind for chunk in chunks} == {"code"} and len(chunks) > 3
    assert "".join(chunk.text for chunk in chunks) == KERNEL


def test_a_folder_answers_one_file_a_candidate(tmp_path: Path) -> None:
    """Candidates take the files in order, an answer in words is read as a model's, and then there are no more."""
    (tmp_path / "1.py").write_text("a = 1\n")
    (tmp_path / "2.md").write_text(f"So:\n```python\n{KERNEL}```\n")
    recorded = backends.open("recorded", model=str(tmp_path))
    assert "".join(c.text for c in recorded.write(REQUEST)) == "a = 1\n"
    second = list(recorded.write(Request("source", "Model", candidate=1)))
    assert "".join(c.text for c in second if c.kind == "code") == KERNEL
    with pytest.raises(NothingToConvert):
        list(recorded.write(Request("source", "Model", candidate=2)))


@pytest.mark.parametrize("model", [None, "/does/not/exist"])
def test_what_cannot_be_opened_says_what_to_do(model: str | None) -> None:
    """A missing answer is a backend that is unavailable, with a hint."""
    with pytest.raises(BackendUnavailable) as fault:
        backends.open("recorded", model=model)
    assert "--model" in fault.value.hint


def test_unknown_backend() -> None:
    """A name nobody knows is refused with the names that exist."""
    with pytest.raises(BackendUnavailable, match="no backend 'gpt'"):
        backends.open("gpt")
