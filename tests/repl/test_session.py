"""The session folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repl import session
from repl.session import Session


def test_a_turn_is_three_files(tmp_path: Path) -> None:
    """Problem, kernel and verdict of a turn share a number."""
    kept = Session(tmp_path)
    kept.begin("x = 1\n")
    assert kept.folder is not None
    assert (kept.folder / "01-problem.py").read_text() == "x = 1\n"
    kept.kernel("y = 2\n")
    kept.verdict({"outcome": "pass", "name": "張量"})
    kept.begin("x = 3\n")
    assert sorted(path.name for path in kept.folder.iterdir()) == [
        "01-kernel.py", "01-problem.py", "01-verdict.json", "02-problem.py",
    ]  # fmt: skip
    assert json.loads((kept.folder / "01-verdict.json").read_text("utf-8"))["name"] == "張量"


def test_a_repaired_paste_stays_beside(tmp_path: Path) -> None:
    """What was pasted is kept when the problem read from it differs."""
    kept = Session(tmp_path)
    kept.begin(">>> x = 1\r\n")
    kept.cleaned(">>> x = 1\r\n", "x = 1\n")
    assert kept.folder is not None
    assert (kept.folder / "01-paste.txt").read_bytes() == b">>> x = 1\r\n"
    assert (kept.folder / "01-problem.py").read_text() == "x = 1\n"


def test_what_is_not_the_kernel_stays_beside_it(tmp_path: Path) -> None:
    """Other candidates, an answer without code, and what was thought; nothing is written for nothing."""
    kept = Session(tmp_path)
    kept.begin("x = 1\n")
    kept.aside(1, "y = 2\n", "Here is y.")
    kept.aside(2, "", "I cannot.")
    kept.aside(3, " ", "")
    kept.reasoning("Hm.")
    assert kept.folder is not None
    texts = {path.name: path.read_text() for path in kept.folder.iterdir()}
    del texts["01-problem.py"]
    assert texts == {"01-candidate-1.py": "y = 2\n", "01-candidate-2.md": "I cannot.", "01-reasoning.md": "Hm."}


def test_two_sessions_of_one_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sessions that begin in the same minute have two folders."""

    class Frozen(session.datetime):
        @classmethod
        def now(cls, tz: object = None) -> Frozen:  # type: ignore[override]
            return cls(2026, 11, 30, 9, 29)

    monkeypatch.setattr(session, "datetime", Frozen)
    first, second = Session(tmp_path), Session(tmp_path)
    first.begin("a")
    second.begin("b")
    assert first.folder == tmp_path / "sessions" / "2026-11-30T09-29"
    assert second.folder == tmp_path / "sessions" / "2026-11-30T09-29-2"


def test_no_turn_no_folder(tmp_path: Path) -> None:
    """A session in which nothing was pasted leaves no folder."""
    Session(tmp_path).history()
    assert not (tmp_path / "sessions").exists()


def test_unwritable_is_told_once(tmp_path: Path) -> None:
    """Where nothing can be written the session goes on, with one warning in all."""
    blocked = tmp_path / "file"
    blocked.write_text("")  # a file where the folder should be: root may write into read-only folders
    warnings: list[str] = []
    kept = Session(blocked, warnings.append)
    assert kept.history() is None
    kept.begin("x")
    assert kept.kernel("y") is None
    kept.verdict({})
    assert len(warnings) == 1 and "nothing is kept" in warnings[0]


def test_history_is_private(tmp_path: Path) -> None:
    """Only its owner may read the history."""
    path = Session(tmp_path / "new").history()
    assert path is not None and path.stat().st_mode & 0o777 == 0o600


def test_any_text_can_be_kept(tmp_path: Path) -> None:
    """A lone surrogate does not stop the keeping."""
    kept = Session(tmp_path)
    kept.begin("x\udcff")
    assert kept.folder is not None and (kept.folder / "01-problem.py").exists()


def test_state_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG_STATE_HOME decides where state is kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert session.state_folder() == tmp_path / "kernelllm"
