"""Pastes that several tests share."""

from __future__ import annotations

SMALL = """import torch
import torch.nn as nn


class Net(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(4, 4)]


def get_init_inputs():
    return []"""

_STEP = "        x = torch.relu(x[:, :] + {0}.0)  # step [bold]{0}[/bold]"
_STEPS = "\n".join(map(_STEP.format, range(102)))

LONG = f'''import torch
import torch.nn as nn


class Long(nn.Module):
    """A module of 124 lines, with blank lines between its parts."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
{_STEPS}
        return x


def get_inputs():
    return [torch.randn(4, 4)]


def get_init_inputs():
    return []

# the end'''

BROKEN = SMALL.replace("return torch.relu(x)", "return x +* 2")
