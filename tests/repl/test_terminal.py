"""The terminal device between prompts, on a real pty, and Ctrl-C on real signals."""

from __future__ import annotations

import os
import pty
import signal
import termios
import threading
import time
from collections.abc import Iterator

import pytest

from repl.terminal import Interrupts, ordinary, quiet, unread


@pytest.fixture
def device() -> Iterator[tuple[int, int]]:
    """The two ends of a terminal: the person's and the program's."""
    person, program = pty.openpty()
    yield person, program
    os.close(person)
    os.close(program)


def test_quiet_restores(device: tuple[int, int]) -> None:
    """The terminal is as it was, also after an error."""
    before = termios.tcgetattr(device[1])
    with pytest.raises(RuntimeError), quiet(device[1]):
        assert not termios.tcgetattr(device[1])[3] & (termios.ECHO | termios.ICANON)
        assert termios.tcgetattr(device[1])[3] & termios.ISIG
        raise RuntimeError
    assert termios.tcgetattr(device[1]) == before


def test_an_editor_gets_an_ordinary_terminal(device: tuple[int, int]) -> None:
    """Inside `ordinary` the terminal echoes and edits lines; afterwards it is quiet again."""
    with quiet(device[1]):
        within = termios.tcgetattr(device[1])
        with ordinary(device[1]):
            assert termios.tcgetattr(device[1])[3] & termios.ECHO
        assert termios.tcgetattr(device[1]) == within


def test_keys_are_kept_and_not_echoed(device: tuple[int, int]) -> None:
    """What is typed meanwhile does not show, and Enter stays Enter."""
    person, program = device
    with quiet(program):
        os.write(person, b"/help\r")
        time.sleep(0.05)
        os.set_blocking(person, False)
        with pytest.raises(BlockingIOError):
            os.read(person, 100)
        assert os.read(program, 100) == b"/help\r"


def test_keys_from_before_are_taken(device: tuple[int, int]) -> None:
    """What was typed before the program started, Enter included, is read as keys."""
    person, program = device
    os.write(person, "x = 'é'\r\ry".encode())
    time.sleep(0.05)
    with quiet(program):
        assert unread(program) == "x = 'é'\r\ry"
        assert unread(program) == ""


def test_no_terminal_is_no_error() -> None:
    """Without a terminal nothing is changed and nothing fails."""
    reading, writing = os.pipe()
    with quiet(reading), ordinary(reading):
        assert unread(reading) == ""
    os.close(reading)
    os.close(writing)


def slow(cleaned: list[str], seconds: float = 30.0) -> Iterator[str]:
    """A source that is waited for, and cleans up."""
    try:
        yield "first"
        time.sleep(seconds)
        yield "second"
    finally:
        time.sleep(0.05)
        cleaned.append("cleaned")


def press(*delays: float) -> None:
    """Send this process a Ctrl-C after each delay."""

    def send() -> None:
        for delay in delays:
            time.sleep(delay)
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=send, daemon=True).start()


def test_ctrl_c_stops_what_is_waited_for() -> None:
    """Ctrl-C ends the waiting at once and the source cleans up; keys mashed meanwhile change nothing."""
    cleaned: list[str] = []
    with Interrupts() as interrupts:
        source = slow(cleaned)
        assert interrupts.pull(source) == "first"
        press(0.1, 0.01, 0.01, 0.01)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            interrupts.pull(source)
        assert time.monotonic() - began < 0.5
        time.sleep(0.1)
        assert interrupts.pull(iter("a")) == "a"
    assert cleaned == ["cleaned"]


def test_a_second_ctrl_c_ends_a_hanging_clean_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that hangs while it closes does not hold the prompt: a later Ctrl-C leaves it."""
    monkeypatch.setattr("repl.terminal.MASHED", 0.2)

    def hanging() -> Iterator[str]:
        try:
            time.sleep(30)
            yield ""
        finally:
            time.sleep(30)

    with Interrupts() as interrupts:
        press(0.1, 0.05, 0.4)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            interrupts.pull(hanging())
        assert 0.4 < time.monotonic() - began < 5


def test_ctrl_c_while_drawing_waits() -> None:
    """Ctrl-C outside of `pull` interrupts nothing until the next one."""
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        drawn = sum(range(1000))
        assert drawn == 499500
        with pytest.raises(KeyboardInterrupt):
            interrupts.pull(iter("a"))
        assert interrupts.pull(iter("a")) == "a"


def test_ctrl_c_with_nothing_to_stop_is_forgotten() -> None:
    """A Ctrl-C from before does not stop what is started afterwards."""
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        interrupts.forget()
        assert interrupts.pull(iter("a")) == "a"


def test_the_old_handler_comes_back() -> None:
    """After the session Ctrl-C means what it meant before."""
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
