"""Writing at places that other numbers name: each element looks for what names it."""

from __future__ import annotations

import re

import pytest

from tests.backends.compiler.written import source, triton, unbroken

FORWARD = "place = x0.long()\nreturn torch.{call} * 2.0"


def test_every_element_has_one_writer() -> None:
    """No atomics, so the sums have one order; a place that does not exist is refused, as PyTorch refuses it."""
    text = unbroken(triton(source(FORWARD.format(call="scatter_add(x0, 1, place, x0)"), (4, 6))))
    assert "tl.atomic" not in text and re.search(r"added \+= tl.where\(target == column, x0\w*, 0.0\)", text)
    assert "tl.device_assert((target >= 0) & (target < " in text and "debug=True" in text


def test_of_several_elements_for_one_place_the_last_stands() -> None:
    """As they come in the index, which is the order of PyTorch's own loop."""
    text = unbroken(triton(source(FORWARD.format(call="scatter(x0, 1, place, x0)"), (4, 6))))
    assert re.search(r"(\w+) = tl.where\(target == column, x0\w*, \1\)", text)


def test_a_source_shorter_than_its_index_is_refused() -> None:
    """Reading on behind a row's end would be no error, and wrong."""
    text = unbroken(triton(source("return torch.scatter_add(x0, 1, x0.long(), x1) * 2.0", (4, 6), (4, 6))))
    assert "expect_length(x1.shape[1], x0.shape[1])" in text or "expect_shape(x1, " in text


def test_an_index_of_one_place_needs_no_loop() -> None:
    """The commonest scatter makes one number of a row stand out."""
    forward = "return torch.zeros(x0.shape[0], 7).scatter_(1, x0[:, :1].long(), 1.0)"
    assert "for k in" not in triton(source(forward, (5, 3)))


@pytest.mark.parametrize(
    ("call", "shape"), [("scatter_add(x0, 1, place, x0)", (4, 65)), ("index_add(x0, 0, place[0], x0.mT)", (65, 65))]
)
def test_sums_by_a_long_index_are_atomic(call: str, shape: tuple[int, ...]) -> None:
    """Looking through all of it for each element would cost more; places that do not exist are refused here, too."""
    text = unbroken(triton(source(FORWARD.format(call=call), shape)))
    assert "tl.atomic_add(" in text and "for k in" not in text
    assert "tl.device_assert((target >= 0) & (target < n_rows), 'an index is out of range', mask=inside)" in text


def test_an_index_that_repeats_a_list_is_read_as_that_list() -> None:
    """A graph's messages go along edges, not along each of their numbers."""
    forward = "place = x0[:, 0].long()[:, None].expand(-1, 8)\nreturn torch.scatter_add(x1, 0, place, x0)"
    assert "line % n_places" in triton(source(forward, (100, 8), (10, 8)))


@pytest.mark.parametrize("cast", ["half()", "bfloat16()", "char()"])
def test_what_a_gpu_does_not_add_in_memory_stays(cast: str) -> None:
    """Half types would be rounded at each addition, in an order that nobody knows."""
    text = triton(source(f"y = x0.{cast}\nreturn torch.scatter_add(y, 1, x0.long(), y) * 2", (4, 65)))
    assert "In PyTorch: scatter_add" in text


def test_a_sum_into_new_zeros_is_written() -> None:
    """What allocates shares no memory with the tensor whose shape it takes."""
    forward = "return torch.zeros_like(x0).index_add_(0, x0[:, 0].long(), x0)"
    assert "In PyTorch: nothing" in triton(source(forward, (100, 8)))


def test_a_part_that_is_replaced_is_as_long_as_what_replaces_it() -> None:
    """One pass reads each element where it comes from; other lengths are refused, as PyTorch refuses them."""
    text = unbroken(triton(source("return torch.slice_scatter(x0, x1, 1, 1, 3)", (4, 6), (4, 2))))
    assert "expect_length(x1.shape[1], len(range(x0.shape[1])[1:3]))" in text
    assert "tl.where((column >= 1) & (column - 1 < x1_columns), x1, x0)" in text
