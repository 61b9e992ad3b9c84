"""Whoever measures has the GPU to itself: other verifications, of this process or another of ours, wait meanwhile.

A readers-writer lock of two files: calls of kernels share the room, a measurement has it alone. Both enter through the
gate, where a measurement waits for the room to empty, so that it isn't passed by forever.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path


@contextmanager
def shared() -> Iterator[None]:
    """Use the GPU beside others, once nobody measures. Not to be entered twice: between, a measurement may wait."""
    with _locked("gate", fcntl.LOCK_EX):
        room = _lock("room", fcntl.LOCK_SH)
    try:
        yield
    finally:
        _unlock(room)


def shared_on(device: str) -> AbstractContextManager[None]:
    """Share the GPU where a device is one; on a processor nobody waits."""
    return shared() if device.startswith("cuda") else nullcontext()


@contextmanager
def alone() -> Iterator[None]:
    """Have the GPU to oneself."""
    with _locked("gate", fcntl.LOCK_EX), _locked("room", fcntl.LOCK_EX):
        yield


@contextmanager
def one_by_one() -> Iterator[None]:
    """Take what there is only so much of after whoever came first."""
    with _locked("queue", fcntl.LOCK_EX):
        yield


@contextmanager
def _locked(name: str, how: int) -> Iterator[None]:
    held = _lock(name, how)
    try:
        yield
    finally:
        _unlock(held)


def _lock(name: str, how: int) -> int | None:
    """Wait for a lock that ends with its holder's process; None where there can be no file."""
    path = Path(tempfile.gettempdir()) / f"kernelllm-gpu-{os.getuid()}-{name}"
    with suppress(OSError):
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(held, how)
        except OSError:
            os.close(held)
            raise
        return held
    return None


def _unlock(held: int | None) -> None:
    if held is not None:
        os.close(held)
