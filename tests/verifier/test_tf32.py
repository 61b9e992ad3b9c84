"""Where PyTorch itself computes with TF32, a kernel may be apart from it by that; the GPU is made up."""

from __future__ import annotations

import pytest
import torch

from verifier.oracle import TF32_ROUNDING
from verifier.problem import Problem
from verifier.truth import Reference

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        y = x @ x
        coarse = {coarse} if torch.backends.cudnn.allow_tf32 else 0.0
        return y + coarse * y

def get_inputs():
    return [torch.randn(16, 16)]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(("coarse", "rounding"), [("3e-4", TF32_ROUNDING), ("3e-7", 2.0**-24)])
def test_it_is_found_by_forbidding_it(monkeypatch: pytest.MonkeyPatch, coarse: str, rounding: float) -> None:
    """A result that changes by as much was computed with it; one that changes by a rounding was not."""
    monkeypatch.setattr(Reference, "_may_take_tf32", lambda _: True)
    assert Reference(Problem(PROBLEM.format(coarse=coarse), "Model")).rounding == rounding


def test_nothing_is_left_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the module is compared with runs as it always does."""
    monkeypatch.setattr(Reference, "_may_take_tf32", lambda _: True)
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    Reference(Problem(PROBLEM.format(coarse="3e-4"), "Model"))
    assert (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32) == before


def test_without_a_gpu_there_is_none() -> None:
    """Nobody runs the module once more for it."""
    assert Reference(Problem(PROBLEM.format(coarse="3e-4"), "Model")).rounding == 2.0**-24
