"""What is done to the results of a launch, to see whether anybody uses them."""

from __future__ import annotations

import pytest
import torch

from verifier.launches import falsify, snapshot

DTYPES = """
    float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 complex64 int64 int32 int16 int8 uint8 uint16 uint32
    uint64 bool
    """.split()


@pytest.mark.parametrize("name", DTYPES)
def test_what_was_written_is_falsified(name: str) -> None:
    """In every dtype that a kernel can write: another number, but nothing stays nothing."""
    tensor = torch.zeros(6).to(getattr(torch, name))
    before = snapshot([tensor])
    written = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 0.0]).to(tensor.dtype)
    tensor.copy_(written)
    falsify(before)
    now, then = tensor.view(torch.uint8).view(6, -1), written.view(torch.uint8).view(6, -1)
    assert (now != then).any(1).tolist() == [True] * 5 + [False]


def test_sizes_are_kept_and_signs_are_not() -> None:
    """A result that is as small as nobody notices stays that small; neither scale nor sign survives."""
    tensor = torch.zeros(3)
    before = snapshot([tensor])
    tensor.copy_(torch.full((3,), 1e-12))
    falsify(before)
    assert tensor.abs().max() < 2e-12 and len(set(tensor.tolist())) == 3 and tensor.min() < 0 < tensor.max()
