"""Inputs laid out otherwise: what a kernel reads there that counts on contiguous memory, and what is no fault."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verifier.conftest import Judge
from tests.verifier.kernels import PROBLEM, RIGHT, spoiled, with_forward
from verifier.layouts import AS_STORED, LAYOUTS, possible, relaid
from verifier.problem import Problem

RAW = spoiled(("x = x.contiguous()", "pass"))
SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.sampled_from(sorted(set(LAYOUTS) - {"expanded"})))
def test_values_stay(shape: list[int], layout: str) -> None:
    """Every number is where it was, whatever lies between them."""
    x = torch.randn(shape)
    (new,) = relaid(layout, [x])
    assert new.shape == x.shape and torch.equal(new, x)
    assert (layout in possible((x,))) == (not new.is_contiguous())


@settings(max_examples=30, deadline=None)
@given(SHAPES)
def test_expanded_rows_are_the_first(shape: list[int]) -> None:
    """All rows are the first one's, in memory that holds as many numbers as before."""
    x = torch.randn(shape)
    (new,) = relaid("expanded", [x])
    if len(shape) > 1 and shape[0] > 1:
        assert torch.equal(new, x[:1].expand_as(x)) and new.stride(0) == 0
    assert new.untyped_storage().nbytes() >= x.numel() * 4


def test_as_stored_is_what_a_contiguous_reader_sees() -> None:
    """A transposed matrix read row by row is the matrix it was transposed from."""
    x = torch.arange(6.0).view(2, 3)
    (read,) = relaid("transposed" + AS_STORED, [x])
    assert read.tolist() == [[0.0, 3.0, 1.0], [4.0, 2.0, 5.0]]


def test_inputs_that_share_memory_are_left_alone() -> None:
    """Two views of one tensor stay that: a kernel may be told to write through one of them."""
    x = torch.randn(3, 4)
    inputs = [x, x[1:]]
    assert relaid("transposed", inputs) is inputs and possible((x, x[1:])) == []


def test_kernel_that_counts_on_contiguous_memory_is_warned_about(judge: Judge) -> None:
    """It is right for the module's inputs, so it passes, and the layouts that it misreads are named."""
    verdict = judge(PROBLEM, RAW)
    assert verdict.outcome == "pass", verdict.message
    text = "only for contiguous inputs: reads a transposed input as if it were contiguous"
    assert text in verdict.warnings
    row = next(row for row in verdict.checks if row.name == "other layouts")
    assert row.outcome == "warn" and row.detail in text


@pytest.mark.parametrize(
    "kernel",
    [RIGHT, spoiled(("x = x.contiguous()", "assert x.is_contiguous()"))],
    ids=["contiguous()", "refuses"],
)
def test_kernel_that_looks_is_not(judge: Judge, kernel: str) -> None:
    """Asking for contiguous memory is right, and refusing anything else is no silent fault."""
    verdict = judge(PROBLEM, kernel)
    assert verdict.passed and verdict.warnings == ()


def test_falling_back_to_pytorch_there_is_said(judge: Judge) -> None:
    """A kernel for contiguous inputs alone that leaves others to PyTorch is no cheat."""
    body = "if not x.is_contiguous():\n    return nn.functional.leaky_relu(x * self.scale, 0.2)\nreturn self.launch(x)"
    verdict = judge(PROBLEM, with_forward(body))
    assert verdict.passed and any("PyTorch computes it" in text for text in verdict.warnings)


def test_inputs_that_are_not_contiguous_decide(judge: Judge) -> None:
    """Where the module itself is given a transposed input, misreading it is wrong."""
    given_so = PROBLEM.source.replace("[torch.randn(5, 37)]", "[torch.randn(37, 5).t()]")
    verdict = judge(Problem(given_so, "Model", ("x",)), RAW)
    assert (verdict.outcome, verdict.code) == ("fail", "value_mismatch")


VIEW = Problem(
    """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.t(), x * 2


def get_inputs():
    return [torch.randn(4, 4)]
""",
    "Model",
    ("x",),
)
TWICE = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def twice(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n, other=0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        held = x.contiguous()
        out = torch.empty_like(held)
        twice[(triton.cdiv(x.numel(), 64),)](held, out, x.numel(), BLOCK=64)
        return x.t(), out
"""


def test_a_view_of_the_input_is_no_shared_buffer(judge: Judge) -> None:
    """What the module itself returns as a view of its input changes with the input, and nobody is warned."""
    verdict = judge(VIEW, TWICE)
    assert verdict.passed and verdict.warnings == ()
