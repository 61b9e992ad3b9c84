"""The terminal device around the prompt: no echo, keys kept for the next prompt, and one place for Ctrl-C.

prompt_toolkit has its own raw mode; this covers the time before, between and after its prompts.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

try:
    import termios
except ImportError:  # Windows: the console keeps typed keys by itself
    termios = None  # type: ignore[assignment]

T = TypeVar("T")

MASHED = 1.0
"""Seconds in which further Ctrl-C belong to the first one; a later one interrupts again, also the cleaning up."""


@contextmanager
def quiet(fd: int | None = None) -> Iterator[None]:
    """Keep typed keys out of the output and unread, with Ctrl-C alive; restore the terminal whatever happens."""

    def change(mode: list[Any]) -> None:
        # Non-canonical: the line discipline must not edit, split (4,096 bytes) or turn Enter into Ctrl-J before
        # the next prompt reads what was typed meanwhile.
        mode[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)
        mode[3] = (mode[3] & ~(termios.ECHO | termios.ICANON)) | termios.ISIG
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0

    with _changed(fd, change, drained=False):
        yield


@contextmanager
def ordinary(fd: int | None = None) -> Iterator[None]:
    """Give another program, such as an editor, the terminal as it expects it."""

    def change(mode: list[Any]) -> None:
        mode[0] |= termios.ICRNL
        mode[3] |= termios.ECHO | termios.ICANON | termios.ISIG

    with _changed(fd, change, drained=True):
        yield


@contextmanager
def _changed(fd: int | None, change: Callable[[list[Any]], None], *, drained: bool) -> Iterator[None]:
    """Change a terminal's attributes, at once or when the output is through, and put them back; a pipe has none."""
    fd = _stdin_fd() if fd is None else fd
    before = _attributes(fd)
    if before is None:
        yield
        return
    mode = _attributes(fd) or before
    change(mode)
    termios.tcsetattr(fd, termios.TCSADRAIN if drained else termios.TCSANOW, mode)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def unread(fd: int | None = None) -> str:
    """Take what was typed before `quiet` began, with its line ends as the Enter keys they were."""
    fd = _stdin_fd() if fd is None else fd
    if _attributes(fd) is None:
        return ""
    data = b""
    while select.select([fd], [], [], 0)[0] and (piece := os.read(fd, 65536)):
        data += piece
    # The line discipline had turned each Enter into a newline by then.
    return data.decode("utf-8", "surrogateescape").replace("\n", "\r")


class Interrupts:
    """Ctrl-C stops what is waited for and nothing else: drawing and keeping are never cut in half."""

    def __init__(self) -> None:
        self._armed = False
        self._pending = False
        self._last = float("-inf")
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._arrived)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before or signal.default_int_handler)

    def forget(self) -> None:
        """Drop a Ctrl-C that came when there was nothing to stop; the next one is a first one."""
        self._pending, self._last = False, float("-inf")

    def pull(self, source: Iterator[T], default: T | None = None) -> T | None:
        """Return the next item, or `default` at the end; raise KeyboardInterrupt on Ctrl-C, also a pending one."""
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt
        with self.armed():
            return next(source, default)

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Let Ctrl-C interrupt what is done here."""
        self._armed = True
        try:
            yield
        finally:
            self._armed = False

    def _arrived(self, _signal: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        mashed, self._last = now - self._last < MASHED, now
        if self._armed and not mashed:
            raise KeyboardInterrupt
        self._pending = self._pending or not mashed


def _stdin_fd() -> int:
    try:
        return sys.stdin.fileno()
    except (AttributeError, ValueError, OSError):
        return -1


def _attributes(fd: int) -> list[Any] | None:
    if termios is None or fd < 0:
        return None
    try:
        return termios.tcgetattr(fd)
    except termios.error:
        return None
