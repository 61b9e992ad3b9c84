"""autocast and gradient modes inside forward: what they do to the numbers is in the file, and they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends import NothingToConvert
from backends.compiler.convert import convert
from tests.backends.compiler.written import unbroken

MODULE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(32, 32), nn.LayerNorm(32)

    def forward(self, x):
        with {context}:
            y = torch.relu(self.layer(x * 2))
            {inner}
        return y.float()


def get_inputs():
    return [torch.randn(20, 32)]


def get_init_inputs():
    return []
"""
BFLOAT16 = 'torch.autocast("cpu", dtype=torch.bfloat16)'


def forward_of(folder: Path, context: str, inner: str = "pass") -> str:
    text = unbroken("".join(convert(MODULE.format(context=context, inner=inner), "Model", folder)))
    return text[text.index("class ModelNew") :]


def test_what_autocast_casts_is_cast(tmp_path: Path) -> None:
    """The product's operands are, what stands before it is not."""
    text = forward_of(tmp_path, BFLOAT16)
    assert "autocast" not in text and text.count("to(") + text.count("to_2(") >= 2


def test_an_inner_part_without_autocast_casts_nothing(tmp_path: Path) -> None:
    """Where it is turned off again, the operands alone decide."""
    off = 'with torch.autocast("cpu", enabled=False): y = self.norm(y.float())'
    text = forward_of(tmp_path, BFLOAT16, off)
    assert "self.norm.weight" in text and "to(self.norm" not in text


@pytest.mark.parametrize("context", ["torch.no_grad()", "torch.enable_grad()"])
def test_gradient_modes_leave_no_trace(context: str, tmp_path: Path) -> None:
    """A kernel has no gradient."""
    assert "grad" not in forward_of(tmp_path, context)


def test_autocast_of_another_device_is_declined(tmp_path: Path) -> None:
    """Its casts do not show in a trace without that device."""
    with pytest.raises(NothingToConvert, match=r"autocast for 'xpu'"):
        forward_of(tmp_path, 'torch.autocast("xpu", dtype=torch.bfloat16)')
