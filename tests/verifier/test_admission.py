"""Which variations a problem admits where a smaller twin tries them first, as on a GPU."""

from __future__ import annotations

import pytest

from verifier import admission
from verifier.problem import Problem
from verifier.truth import Reference

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(32, 4))

    def forward(self, x):
        return x * self.table[: x.shape[0]]

def get_inputs():
    return [torch.randn({rows}, 4)]

def get_init_inputs():
    return []
"""


def test_a_limit_that_the_smaller_one_does_not_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the smaller one admits and the module itself refuses is no variation of it, and no error."""
    small, large = (Reference(Problem(PROBLEM.format(rows=rows), "Model")) for rows in (8, 32))
    monkeypatch.setattr(admission, "_scout", lambda _: small)
    assert any(case.label.startswith("odd") for case in admission.admitted(small, budget=20.0))
    admitted = admission.admitted(large, budget=20.0)
    assert len(admitted) > 3 and not any(case.label.startswith("odd") for case in admitted)
