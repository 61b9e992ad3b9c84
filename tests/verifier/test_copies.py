"""What a launch made of what it was given: nothing, a copy, a line, or more than that."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from verifier.copies import AFFINE, COPY, change

GIVEN = torch.arange(40.0)


def launched(work: Tensor, result: Tensor, band: int = 0) -> tuple[bool, str]:
    """Describe a launch that reads `work` and writes `result` to memory that held NaN, between bands of NaN."""
    memory = torch.full((result.numel() + 2 * band,), float("nan"), dtype=result.dtype)
    out = memory[band : band + result.numel()]
    source = torch.cat([torch.full((band,), float("nan")), work, torch.full((band,), float("nan"))])
    read = source[band : band + work.numel()]
    before = {
        tensor.untyped_storage().data_ptr(): (tensor, tensor_bytes(tensor).clone()) for tensor in (read, out)
    }  # fmt: skip
    out.copy_(result)
    return change(before, frozenset(), frozenset())


def tensor_bytes(tensor: Tensor) -> Tensor:
    """Return all the memory behind a tensor."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


@pytest.mark.parametrize("band", [0, 16])
@pytest.mark.parametrize(
    ("result", "found"),
    [(GIVEN, COPY), (-GIVEN, AFFINE), (3 * GIVEN + 1, AFFINE), (GIVEN.square(), ""), (GIVEN.sin(), "")],
    ids=["copy", "negation", "line", "square", "sine"],
)
def test_the_least_a_launch_did_is_found(result: Tensor, found: str, band: int) -> None:
    """Also between guard bands, which are the same in both."""
    assert launched(GIVEN, result, band) == (True, found)


def test_memory_of_one_value_feeds_nothing() -> None:
    """Zeros that are written over are an allocation."""
    assert launched(torch.zeros(40), GIVEN.sin())[0] is False


def test_what_the_call_was_given_does_not_count() -> None:
    """A kernel that copies an input does what the module asks."""
    out = torch.zeros(40)
    start = GIVEN.untyped_storage().data_ptr()
    tensors = (GIVEN, out)
    before = {tensor.untyped_storage().data_ptr(): (tensor, tensor_bytes(tensor).clone()) for tensor in tensors}
    out.copy_(GIVEN)
    assert change(before, frozenset({start}), frozenset()) == (False, "")
