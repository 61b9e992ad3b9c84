"""Sorts of a row: numbers become integers with their places behind them, and one program sorts those."""

from __future__ import annotations

import pytest

from tests.backends.compiler.written import kernels, source, triton, unbroken


def test_a_sort_gives_numbers_and_places_at_once() -> None:
    """Each key has its place behind it, so equal numbers stay as they lie."""
    text = unbroken(triton(source("return torch.sort(x0, dim=-1, descending=True)", (4, 40))))
    assert kernels(text) == ["sort"] and "tl.where(inside, ~order_of(x0), 2147483647)" in text
    assert "key, place = in_order(key, place_and_sign(column, x0), BLOCK)" in text


def test_the_largest_few_are_all_that_is_stored() -> None:
    """A router wants two of sixty-four: the kernel keeps a power of two and stores so many."""
    text = unbroken(triton(source("v, i = torch.topk(x0, 3, dim=-1)\nreturn v + 1.0, i", (4, 64))))
    assert "x0.new_empty((*shape[:-1], 3))" in text and "K=3, BLOCK_K=4" in text
    assert "tl.store(topk_ptr + row * K + rank, topk, mask=row_inside & (rank < K))" in text


def test_a_softmax_is_sorted_where_it_is_computed() -> None:
    """Weights of experts never reach memory, only the chosen ones do; so with what is computed from a sorted row."""
    router = "v, i = torch.topk(torch.softmax(x0, -1), 2, dim=-1)\nreturn v, i"
    assert kernels(triton(source(router, (4, 8)))) == ["softmax_topk"]
    assert kernels(triton(source("return (x0.sort(-1)[0] * x0).sum(-1)", (4, 8)))) == ["sort_mul_sum"]


def test_the_largest_one_needs_no_sort() -> None:
    """It is a maximum and its place."""
    assert "in_order" not in triton(source("v, i = x0.topk(1, dim=-1)\nreturn v, i", (4, 8)))


def test_a_median_is_picked_where_the_row_is_sorted() -> None:
    """Only the picked number is stored."""
    text = triton(source("return x0.median(1)[0] * 2.0", (4, 8)))
    assert kernels(text) == ["median_mul"] and "tl.store(sorted" not in text


def test_other_dimensions_are_read_as_the_last() -> None:
    """The kernel reads where they lie; what it gives is looked at the other way round."""
    text = triton(source("return torch.sort(x0, dim=0)[0]", (40, 4)))
    assert ".movedim(-1, 0)" in text and len(kernels(text)) == 1


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        ("return torch.sort(x0, dim=-1)[0] * 2.0", "builtin sorts rows of up to 8192 elements"),
        ("return torch.sort(x0.double(), dim=-1)[0] * 2.0", "builtin sorts numbers of up to 32 bits"),
    ],
)
def test_what_one_program_cannot_sort_stays(forward: str, reason: str) -> None:
    """PyTorch sorts long rows, and wide numbers, which leave no room for a place."""
    assert reason in " ".join(triton(source(forward, (2, 8193))).split())


def test_a_longer_row_is_refused() -> None:
    """The file is for any size that a program can sort."""
    assert "if n_columns > 8192:" in triton(source("return torch.sort(x0, dim=-1)", (4, 40)))
