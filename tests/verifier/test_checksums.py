"""Sums of stretches tell a wrong tile from rounding."""

from __future__ import annotations

import pytest
import torch

from verifier.checksums import STRETCH, checksums, difference

N = 5 * STRETCH + 100


@pytest.fixture
def right() -> torch.Tensor:
    return torch.randn(N, generator=torch.Generator().manual_seed(0))


def changed(right: torch.Tensor, place: slice, value: float) -> str:
    """Compare with a copy that is wrong at a place."""
    wrong = right.clone()
    wrong[place] = value
    return difference(checksums(right), checksums(wrong))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rounding_is_no_difference(right: torch.Tensor, dtype: torch.dtype) -> None:
    """TF32-sized noise, and a result in a narrower type, sum to the same."""
    noisy = right * (1 + 1e-3 * torch.randn(N, generator=torch.Generator().manual_seed(1)))
    assert difference(checksums(right.to(dtype)), checksums(noisy.to(dtype))) == ""


def test_a_tile_that_was_not_written_is_found(right: torch.Tensor) -> None:
    """1,024 zeros in 328,000 elements show, with the place."""
    text = changed(right, slice(3 * STRETCH + 5, 3 * STRETCH + 1029), 0.0)
    assert text.startswith(f"from element {3 * STRETCH} of result 0 on, {STRETCH} elements sum to ")


def test_the_tail_is_looked_at(right: torch.Tensor) -> None:
    """The last stretch is shorter, and counts: half of the tail is missing."""
    assert f"from element {5 * STRETCH} " in changed(right.abs() * 50, slice(N - 50, N), 0.0)


def test_a_nan_is_found(right: torch.Tensor) -> None:
    """What was left as it was allocated holds NaN."""
    assert changed(right, slice(7, 8), float("nan")).startswith("from element 0 ")


def test_the_same_nan_is_no_difference(right: torch.Tensor) -> None:
    """A module may return NaN."""
    right[3] = float("nan")
    assert difference(checksums(right), checksums(right.clone())) == ""


def test_integers_may_differ_at_ties() -> None:
    """One index in a thousand may belong to another of two equal maxima; a wrong stretch may not."""
    right = torch.arange(N) % 1000
    tied = right.clone()
    tied[::1000] = 500
    assert difference(checksums(right), checksums(tied)) == ""
    assert changed(right, slice(0, STRETCH // 2), 0).startswith("from element 0 ")


def test_another_size_is_said(right: torch.Tensor) -> None:
    """Fewer stretches cannot be compared."""
    assert difference(checksums(right), checksums(right[:STRETCH])) == "result 0 has another size"
    assert difference(checksums([right, right]), checksums(right)) == "another number of results"


def test_empty_and_strided_results_are_summed() -> None:
    """A transposed result is summed in its own order, an empty one has nothing to sum."""
    grid = torch.arange(12.0).view(3, 4)
    assert checksums(grid.t())[0]["sums"] == [66.0]
    assert checksums(torch.empty(0))[0]["sums"] == []
