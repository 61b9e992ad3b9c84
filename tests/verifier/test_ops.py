"""What PyTorch is said to have done, and that its work is the same by any name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from verifier.ops import moved, record

X, W, B = torch.randn(16, 64), torch.randn(48, 64), torch.randn(48)
AT = torch.arange(64).repeat(16, 1)
PRODUCTS: dict[str, Callable[[], torch.Tensor]] = {
    "conv1d": lambda: functional.conv1d(X[:, :, None], W[:, :, None], B)[:, :, 0],
    "bilinear": lambda: functional.bilinear(X, torch.ones(16, 1), W[:, :, None], B),
    "mul": lambda: (X[:, None, :] * W).sum(-1) + B,
    "embedding_bag": lambda: functional.embedding_bag(AT, W.t().contiguous(), per_sample_weights=X, mode="sum") + B,
    "sparse_mm": lambda: torch.sparse.mm(W.to_sparse(), X.t()).t() + B,
    "einsum": lambda: torch.einsum("bi,oi->bo", X, W) + B,
    "fft_irfft": lambda: torch.fft.irfft(
        torch.fft.rfft(X, n=128)[:, None] * torch.fft.rfft(W.flip(1), n=128)[None], n=128
    )[:, :, 63],
}


def work(function: Callable[[], torch.Tensor]) -> list[tuple[str, int]]:
    """Return names and costs of what a function has PyTorch do."""
    _, seen = record(function)
    return list(zip(seen.names, seen.costs, strict=True))


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_by_another_name(name: str) -> None:
    """It has not gone away."""
    left = work(PRODUCTS[name])
    assert name in dict(left) and moved(work(lambda: functional.linear(X, W, B).relu()), left) == ["linear"]


@pytest.mark.parametrize(
    "left",
    [lambda: X[:4] @ W[:4].t(), lambda: X + 1, lambda: functional.linear(X, W, B), lambda: W.flip(1).contiguous()],
)
def test_what_is_left_is_not_what_was_taken(left: Callable[[], torch.Tensor]) -> None:
    """Small work beside it, or the operation itself by its own name."""
    assert moved(work(lambda: functional.linear(X, W, B).relu()), work(left)) == []


def test_two_products_are_two() -> None:
    """One of them by another name is one."""
    wanted = work(lambda: functional.linear(functional.linear(X, W, B), W.t()))
    assert moved(wanted, work(PRODUCTS["conv1d"])) == ["linear"]
