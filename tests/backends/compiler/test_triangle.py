"""Triangles of products: tiles of which nothing is kept are not computed, where the program itself says so."""

from __future__ import annotations

import pytest

from backends.compiler.triangle import Triangle, kept
from tests.backends.compiler.written import groups, source, triton

SHAPES = (20, 7), (7, 15)
KEPT = {
    "y = torch.tril(x0 @ x1)": Triangle(is_upper=False, diagonal=0),
    "y = torch.triu(x0 @ x1, 3) * 2": Triangle(is_upper=True, diagonal=3),
    "y = torch.tril(torch.exp(x0 @ x1) + x0[:, :1], -2)": Triangle(is_upper=False, diagonal=-2),
    "z = x0 @ x1\ny = torch.tril(z) + torch.tril(z.exp())": Triangle(is_upper=False, diagonal=0),
}
WHOLE = {
    "nothing cut": "y = x0 @ x1",
    "the other part too": "z = x0 @ x1\ny = torch.tril(z) + torch.triu(z, 1)",
    "beside the whole": "z = x0 @ x1\ny = torch.tril(z) + z",
    "infinities are not cut off by a factor of 0": "y = (x0 @ x1) * torch.tril(torch.ones(20, 15))",
    "only the factors are triangles": "y = torch.tril(x0) @ torch.triu(x1)",
}


def found(forward: str) -> Triangle | None:
    """Return the triangle of the one product."""
    (product,) = [group for group in groups(source(f"{forward}\nreturn y", *SHAPES)) if group.kind == "matmul"]
    return kept(product)


@pytest.mark.parametrize("forward", KEPT)
def test_what_is_kept_is_seen_through_what_is_computed_of_it(forward: str) -> None:
    """Steps before and behind the triangle change nothing of it."""
    assert found(forward) == KEPT[forward]


@pytest.mark.parametrize("forward", WHOLE.values(), ids=WHOLE)
def test_what_may_be_seen_is_computed(forward: str) -> None:
    """Where another path leads around the triangle every tile has its sums."""
    assert found(forward) is None


@pytest.mark.parametrize(("product", "begin", "end"), [
    ("torch.tril(x0, 2) @ x1", "", "min(tile_m * BLOCK_M + BLOCK_M + 2, K)"),
    ("torch.triu(x0) @ x1", "max(tile_m * BLOCK_M, 0)", ""),
    ("x0 @ torch.tril(x1)", "max(tile_n * BLOCK_N, 0)", ""),
    ("x0 @ torch.triu(x1, 1)", "", "min(tile_n * BLOCK_N + BLOCK_N - 1, K)"),
    ("F.linear(x0, torch.tril(x1.mT.contiguous()))", "", "min(tile_n * BLOCK_N + BLOCK_N, K)"),
    ("torch.diag(x0[0]) @ x1", "max(tile_m * BLOCK_M, 0)", "min(tile_m * BLOCK_M + BLOCK_M, K)"),
    ("x0 @ torch.diag(x1[:, 0])", "max(tile_n * BLOCK_N, 0)", "min(tile_n * BLOCK_N + BLOCK_N, K)"),
    ("torch.triu(x0.mT).mT @ x1", "", ""),
    ("(x0 * torch.ones(20, 7).tril()) @ x1", "", ""),
])  # fmt: skip
def test_sums_go_as_far_as_a_factor_is_not_zero(product: str, begin: str, end: str) -> None:
    """Only what the step before the product has set to 0 itself; views of it are read like any tensor."""
    text = triton(source(f"return {product}", *SHAPES))
    assert ("begin = " in text, "end = " in text) == (bool(begin), bool(end))
    assert f"begin = {begin}" in text or not begin
    assert f"end = max({end}, 0)" in text or not end
