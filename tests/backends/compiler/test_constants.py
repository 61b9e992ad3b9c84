"""Tensors of one number are written into the kernel as that number, as long as it stays that number."""

from __future__ import annotations

from tests.backends.compiler.written import source, triton


def test_a_tensor_of_zeros_is_a_number_in_the_kernel() -> None:
    """zeros_like is neither allocated nor read."""
    text = triton(source("return torch.where(x0 > 0, x0, torch.zeros_like(x0))", (4, 8)))
    assert "tl.where(x0 > 0.0, x0, 0.0)" in text and "zeros_like" not in text.split("class ModelNew")[1]


def test_a_number_made_a_tensor_in_forward_is_a_number_in_the_kernel() -> None:
    """torch.tensor(0.1) is written as 0.1, not as the float32 nearest to it."""
    assert "x0 * 0.1\n" in triton(source("return x0 * torch.tensor(0.1)", (4, 8)))


def test_a_small_table_made_in_forward_is_written_out() -> None:
    """It is made on the inputs' device, wherever the file runs."""
    text = triton(source("return x0 * torch.tensor([1.0, float('inf')])", (4, 2)))
    assert 'torch.tensor([1.0, float("inf")], dtype=torch.float32, device=x0.device)' in text
