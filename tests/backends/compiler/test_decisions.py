"""What a module's own lines decide by sizes: the file is right for sizes that decide alike, and refuses the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.compiler.convert import convert
from tests.backends.compiler.written import unbroken

MODULE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
{lines}
        return y


def get_inputs():
    return [torch.randn(20, 33)]


def get_init_inputs():
    return []
"""


def forward_of(lines: str, folder: Path) -> str:
    body = "\n".join("        " + line for line in lines.splitlines())
    text = unbroken("".join(convert(MODULE.format(lines=body), "Model", folder)))
    return text[text.index("def forward") :]


@pytest.mark.parametrize(
    ("lines", "refused", "held"),
    [
        ("for t in range(x.shape[0] // 10):\n    y = y + t", "x.shape[0] != 20", "x.shape[0] = 20"),
        ("if x.shape[1] > 7:\n    y = y * 2", "x.shape[1] <= 7", "x.shape[1] > 7"),
        ("if x.shape[1] > 2 * len(x):\n    y = y * 2", "x.shape[1] > 2 * x.shape[0]", "x.shape[1] <= 2 * x.shape[0]"),
        ("assert x.size(0) % 5 == 0\ny = y + 1", "x.shape[0] % 5 != 0", "x.shape[0] % 5 == 0"),
        ("for t in range(len(x)):\n    y = y + t", "x.shape[0] != 20", "x.shape[0] = 20"),
        ("y = y * int(x.shape[1] * 0.5)", "x.shape[1] != 33", "x.shape[1] = 33"),
    ],
)  # fmt: skip
def test_what_was_decided_is_asked_again(lines: str, refused: str, held: str, tmp_path: Path) -> None:
    """A loop's rounds, a branch, an assertion, a number taken from a size."""
    text = forward_of(lines, tmp_path).replace("'", '"')
    assert f"if {refused}:" in text and f'raise ValueError("written for {held}")' in text


@pytest.mark.parametrize(
    "lines", ["y = y + torch.arange(len(x))[:, None]", "y = y / len(x)", "if y.dim() > 1:\n    y = y.view(-1, len(x))"]
)
def test_counting_rows_decides_nothing(lines: str, tmp_path: Path) -> None:
    """`len` of a tensor is a size like any other."""
    assert "written for" not in forward_of(lines, tmp_path)
