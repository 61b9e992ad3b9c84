"""How long a candidate may take: its own time counts, not what others on the machine take from it."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest

from verifier import containment
from verifier.containment import Contained
from verifier.processors import delayed
from verifier.trial import Failed


class Slow:
    """A child that answers after some seconds."""

    def __init__(self, seconds: float) -> None:
        self.pid, self.channel, self.answers = os.getpid(), SimpleNamespace(ended=False), time.monotonic() + seconds

    def receive_frame(self, timeout: float) -> tuple[dict[str, Any], list[bytes]] | None:
        left = self.answers - time.monotonic()
        time.sleep(max(0.0, min(left, timeout)))
        return ({"nonce": ""}, []) if left <= timeout else None

    def kill(self) -> str:
        return "signal 9"


def contained(child: Slow) -> Contained:
    made = Contained.__new__(Contained)
    made._child, made._nonce = child, ""  # type: ignore[assignment]
    return made


def test_a_wait_for_a_processor_is_not_the_candidate_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it is given what it had to wait."""
    waits = iter([0.0, 0.5, 0.5])
    monkeypatch.setattr(containment, "delayed", lambda pid: next(waits))
    assert contained(Slow(0.3)).receive(0.1) == ({}, [])


def test_a_candidate_that_is_slow_itself_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is added where it had the processor, and no more than a few times the limit where it had not."""
    for waited, limit in ((0.0, 0.1), (60.0, 0.1)):
        waits = iter([0.0, *[waited] * 9])
        monkeypatch.setattr(containment, "delayed", lambda pid, waits=waits: next(waits))
        with pytest.raises(Failed, match="no result"):
            contained(Slow(5.0)).receive(limit)


def test_how_long_a_process_waited_is_known_or_nothing() -> None:
    """A process that is gone waited for nothing."""
    assert delayed(os.getpid()) >= 0.0 and delayed(2**22 + 1) == 0.0
