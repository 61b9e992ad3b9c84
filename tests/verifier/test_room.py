"""Waiting for room in a GPU's memory; the GPU itself is made up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from verifier import room, turns

TOTAL = 1000


class Device:
    """A GPU of which others hold some memory, less of it with every look."""

    def __init__(self, others: list[int], own: int = 0) -> None:
        self.others, self.own, self.waited = others, own, 0

    def mem_get_info(self) -> tuple[int, int]:
        return TOTAL - self.own - self.others[0], TOTAL

    def sleep(self, _: float) -> None:
        self.waited += 1
        self.others = self.others[1:] or self.others


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Device], None]:
    """Return what puts a device in the place of the GPU."""

    def put(device: Device) -> None:
        monkeypatch.setattr(turns.tempfile, "gettempdir", lambda: str(tmp_path))
        monkeypatch.setattr(torch.cuda, "mem_get_info", device.mem_get_info)
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: device.own)
        monkeypatch.setattr(room.time, "sleep", device.sleep)

    return put


TENSORS = [torch.zeros(100, dtype=torch.uint8)]


def test_where_there_is_room_nobody_waits(on: Callable[[Device], None]) -> None:
    """Half of the memory is others', and the rest is enough, with a margin for others still."""
    device = Device([500])
    on(device)
    room.reserve(TENSORS, 3)
    assert device.waited == 0


def test_others_are_waited_for(on: Callable[[Device], None]) -> None:
    """Until what they give back is enough."""
    device = Device([900, 800, 500])
    on(device)
    room.reserve(TENSORS, 3)
    assert device.waited == 2


def test_what_is_too_large_for_an_empty_gpu_waits_for_nobody(on: Callable[[Device], None]) -> None:
    """PyTorch then says that there is not enough memory."""
    device = Device([100], own=100)
    on(device)
    room.reserve(TENSORS, 9)
    assert device.waited == 0


def test_nobody_is_waited_for_in_vain(on: Callable[[Device], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds the memory may hold it for good."""
    device = Device([900])
    on(device)
    monkeypatch.setattr(room, "SECONDS", 0.0)
    room.reserve(TENSORS, 4)
    assert device.waited == 0
