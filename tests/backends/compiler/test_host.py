"""Numbers of the user's own are written by name, so that another constructor argument does not make the file wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.compiler.convert import convert
from tests.backends.compiler.written import unbroken

MODULE = """
import math
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
    text = unbroken("".join(convert(MODULE.format(line=line), "Model", folder)))
    return text[text.index("def forward") :]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("y = x.clamp(-self.limit, self.limit)", "-self.limit, self.limit"),
        ("y = torch.relu(x) * self.scale", "self.scale"),
        ("y = torch.relu(x) / self.width ** 0.5", "self.width ** 0.5"),
        ("y = torch.relu(x) * (1.0 / self.limit)", "1.0 / self.limit"),
        ("y = self.limit * x + (8 - self.limit) * torch.relu(x)", "8 - self.limit"),
        ("y = torch.relu(x) * self.limit * self.width", "self.limit, self.width"),
        ("y = torch.relu(x) * (self.limit * self.width)", "self.limit * self.width"),
        ("y = torch.relu(x) + math.log(self.limit) / self.width", "math.log(self.limit) / self.width"),
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


def test_a_split_into_an_attributes_number_takes_it(tmp_path: Path) -> None:
    """A length that only is twice the attribute, because the tensor's own is, takes nothing."""
    text = forward_of("y = torch.relu(x @ x.t()).view(-1, self.width, 20)", tmp_path)
    assert "written for" not in text and "(-1, self.width)" in text
    twice = "y = torch.relu(x.repeat(1, 2)).view(-1, len(x) - 3 * self.width, 33)"
    text = forward_of(twice, tmp_path)
    assert "written for" not in text and "self.width" not in text


def test_a_length_is_named_as_the_line_names_it(tmp_path: Path) -> None:
    """A view's lengths are the constructor's; one that is computed from a length is what is left."""
    line = "y = x.reshape(-1, self.width, 33).softmax(1).reshape(x.shape[0] // self.width, self.width, 33)"
    assert "(-1, self.width)" in forward_of(line, tmp_path)


LOOPED = MODULE.replace("self.width, self.count = limit, scale, width, count", "self.a, self.b = limit, scale, 12, 6")


def test_a_place_that_a_loop_counts_is_nobody_s_length(tmp_path: Path) -> None:
    """Two attributes whose quotient is the loop's 2 are not what the line reads."""
    line = "y = torch.cat([x[t] + x[t].sum(dim=0) for t in range(3)])"
    text = unbroken("".join(convert(LOOPED.format(line=line), "Model", tmp_path)))
    assert "self.a" not in text[text.index("def forward") :]
