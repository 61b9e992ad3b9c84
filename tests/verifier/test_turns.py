"""Who uses the GPU when: calls side by side, a measurement alone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from verifier import turns

SOON = 5.0
NOT_YET = 0.2


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use locks of the test's own."""
    monkeypatch.setattr(turns.tempfile, "gettempdir", lambda: str(tmp_path))


def entering(turn: object) -> tuple[threading.Event, threading.Event, threading.Thread]:
    """Take a turn in a thread; return what is set once it has it, what ends it, and the thread."""
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with turn:  # type: ignore[attr-defined]
            inside.set()
            leave.wait(SOON)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return inside, leave, thread


def test_calls_share() -> None:
    """Two verifications use the GPU at the same time."""
    with turns.shared():
        inside, leave, thread = entering(turns.shared())
        assert inside.wait(SOON)
        leave.set()
        thread.join()


def test_a_measurement_waits_for_calls_and_has_the_gpu_alone() -> None:
    """It begins when the last call ends, and no call begins before its end."""
    with turns.shared():
        measuring, measured, clock = entering(turns.alone())
        assert not measuring.wait(NOT_YET)
    assert measuring.wait(SOON)
    calling, called, other = entering(turns.shared())
    assert not calling.wait(NOT_YET)
    measured.set()
    assert calling.wait(SOON)
    called.set()
    clock.join()
    other.join()


def test_a_measurement_is_not_passed_by() -> None:
    """Calls that come while it waits are let in after it, however many there are."""
    with turns.shared():
        measuring, measured, clock = entering(turns.alone())
        assert not measuring.wait(NOT_YET)
        calling, called, other = entering(turns.shared())
        assert not calling.wait(NOT_YET)
    assert measuring.wait(SOON)
    assert not calling.is_set()
    measured.set()
    assert calling.wait(SOON)
    called.set()
    clock.join()
    other.join()


def test_without_a_place_for_locks_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a folder for temporary files still verifies."""
    monkeypatch.setattr(turns.tempfile, "gettempdir", lambda: str(tmp_path / "missing"))
    with turns.alone():
        inside, leave, thread = entering(turns.shared())
        assert inside.wait(SOON)
        leave.set()
        thread.join()
