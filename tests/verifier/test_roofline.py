"""What a device allows, and times that cannot be true."""

from __future__ import annotations

import pytest
import torch

from verifier import roofline


def test_a_copy_at_the_measured_rate_is_the_whole_roof() -> None:
    """4.3 GB in 1 ms on an H200 is a share of 1, twice the time half of it."""
    assert roofline.share(1.0, 4.3e9, 0, "float32", "NVIDIA H200") == pytest.approx(1.0)
    assert roofline.share(2.0, 4.3e9, 0, "float32", "NVIDIA H200") == pytest.approx(0.5)


def test_arithmetic_counts_in_its_own_precision() -> None:
    """4096³ in fp32 is bound at about 2.05 ms, in bf16 at about 0.17 ms."""
    flops = 2 * 4096**3
    assert roofline.bound_ms(0, flops, "float32", "NVIDIA H200") == pytest.approx(2.05, rel=0.01)
    assert roofline.bound_ms(0, flops, "bfloat16", "NVIDIA H200") == pytest.approx(0.174, rel=0.01)


def test_nothing_is_claimed_about_unknown_devices() -> None:
    """Without constants for a device there is no share and no accusation."""
    assert roofline.share(1.0, 1e9, 0, "float32", "GeForce 256") is None
    assert roofline.impossible(1e-6, 1e12, "GeForce 256") is None


def test_a_kernel_that_beats_the_bound_has_reached_it() -> None:
    """Split precision may beat the fp32 units: the share stays at 1."""
    assert roofline.share(0.8, 0, 2 * 4096**3, "float32", "NVIDIA H200") == 1.0


def test_writing_faster_than_memory_is_impossible() -> None:
    """6.4 GB cannot be written in 0.1 ms; small outputs may still be in the cache."""
    assert "too short" in (roofline.impossible(0.1, 6.4e9, "NVIDIA H200") or "")
    assert roofline.impossible(1.6, 6.4e9, "NVIDIA H200") is None
    assert roofline.impossible(0.004, 1 << 20, "NVIDIA H200") is None


def test_shared_memory_is_counted_once() -> None:
    """Two views of one storage are one buffer; an expanded tensor is as large as what it holds."""
    x = torch.zeros(10, 10)
    assert roofline.bytes_once([x, x.t(), x[0]]) == 400
    assert roofline.bytes_once([torch.zeros(1).expand(1000)]) == 4


def test_flops_of_a_linear_layer_are_counted() -> None:
    """A (4, 8) times (8, 16) product is 2·4·8·16 operations."""
    assert roofline.counted_flops(torch.nn.Linear(8, 16), torch.zeros(4, 8)) == 1024
