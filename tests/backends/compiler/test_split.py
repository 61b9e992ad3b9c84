"""Two-stage reductions: the second stage reads its own operands as every kernel does."""

from __future__ import annotations

import pytest

from tests.backends.compiler.written import source, triton


@pytest.mark.parametrize(
    ("forward", "made", "conversion"),
    [("x0.mean(-1) * x1", "half()", "tl.float32"), ("torch.where(x1, x0.mean(-1), 0.0)", "bool()", "tl.int1")],
)
def test_the_second_stage_widens_what_it_loads(forward: str, made: str, conversion: str) -> None:
    """A half is computed in float32, and a bool is one bit, in the tail too."""
    text = source(f"return {forward}", (2, 70_000), (2,)).replace("torch.rand((2,))", f"torch.rand((2,)).{made}")
    assert f"x1 = tl.load(x1_ptr + row).to({conversion})" in triton(text)


def test_the_second_stage_finds_the_row_of_what_some_rows_share() -> None:
    """A number for each of three rows, the same in every batch, is read at the row and not at the line."""
    text = triton(source("return x0.mean(-1) + x1", (2, 3, 70_000), (3,)))
    assert "row = line % n_rows" in text and "x1 = tl.load(x1_ptr + row)" in text
