"""Numbers of the user's own are written by name, so that another constructor argument does not make the file wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.compiler.convert import convert

MODULE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, limit=7.0, scale=1.0, width=4, count=1):
        super().__init__()
        self.limit, self.scale, self.width, self.count = limit, scale, width, count

    def forward(self, x):
        {line}
        return y


def get_inputs():
    return [torch.randn(20, 33)]


def get_init_inputs():
    return []
"""


def forward_of(line: str, folder: Path) -> str:
    text = "".join(convert(MODULE.format(line=line), "Model", folder))
    return text[text.index("def forward") :]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("y = x.clamp(-self.limit, self.limit)", "-self.limit, self.limit"),
        ("y = torch.relu(x) * self.scale", "self.scale"),
        ("y = torch.relu(x) / self.width ** 0.5", "self.width ** 0.5"),
        ("y = torch.relu(x) * (1.0 / self.limit)", "1.0 / self.limit"),
    ],
)
def test_a_number_of_the_constructor_is_passed_by_name(line: str, named: str, tmp_path: Path) -> None:
    """An attribute, its negative, its root or its inverse reaches the kernel as an argument, also where it is 1."""
    assert named in forward_of(line, tmp_path)


def test_a_number_that_may_be_the_lines_own_pins_the_attribute(tmp_path: Path) -> None:
    """Where the line also holds the literal, the file refuses another value instead of guessing."""
    assert "if self.count != 1:" in forward_of("y = (x + 1) * self.count", tmp_path)


def test_an_operators_default_is_nobodys_number(tmp_path: Path) -> None:
    """The alpha = 1 of an addition is not an attribute that happens to be 1."""
    assert "self.count" not in forward_of("y = x + x.abs()", tmp_path)
