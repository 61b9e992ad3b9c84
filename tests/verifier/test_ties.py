"""Of equal numbers PyTorch takes any: a kernel that takes the first is right, one that takes another number is not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.verifier.references import judge, load, problem
from verifier.truth import Reference

TIED = "torch.randint(0, 4, (16, 100)).float()"


def first(x: Tensor, descending: bool = True) -> torch.return_types.sort:
    """Sort as the oracle does."""
    return torch.sort(x, dim=-1, descending=descending, stable=True)


def opened(forward: str) -> Reference:
    """Load a module whose rows hold each number many times."""
    return load(problem(forward, TIED))


def test_the_first_of_equal_numbers_is_right() -> None:
    """PyTorch's own index is another one here, so the oracle's must count."""
    reference = opened("x.topk(3, -1)[1]")
    assert not torch.equal(
        reference.expected(reference.first_case).outputs.truths[0].eager,
        reference.expected(reference.first_case).outputs.truths[0].oracle,
    )
    assert judge(reference, lambda model, x: first(x)[1][:, :3]) is None
    assert judge(reference, lambda model, x: x.topk(3, -1)[1]) is None


@pytest.mark.parametrize("shift", [1, -1])
def test_the_index_of_another_number_is_wrong(shift: int) -> None:
    """Only equal numbers may stand for each other."""
    finding = judge(opened("x.topk(3, -1)[1]"), lambda model, x: (first(x)[1][:, :3] + shift) % 100)
    assert finding is not None and finding.code == "value_mismatch"


def test_order_that_nobody_asked_for_is_right() -> None:
    """With sorted=False PyTorch gives some order, and a kernel may give the sorted one."""
    reference = opened("x.topk(8, -1, sorted=False)[1]")
    assert judge(reference, lambda model, x: first(x)[1][:, :8]) is None


@pytest.mark.parametrize(("forward", "rank"), [("x.kthvalue(7, -1)[1]", 6), ("x.median(-1)[1]", 49)])
def test_the_rank_of_a_stable_order_is_right(forward: str, rank: int) -> None:
    """The k-th smallest number is there many times."""
    reference = opened(forward)
    assert judge(reference, lambda model, x: first(x, descending=False)[1][:, rank]) is None
    assert judge(reference, lambda model, x: first(x)[1][:, rank]) is not None
