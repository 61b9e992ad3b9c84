"""Four modules as people paste them: an activation, a softmax, a LayerNorm, and a Linear with its GELU."""

from __future__ import annotations

_FORM = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
{body}


def get_inputs():
    return [torch.randn({shape})]


def get_init_inputs():
    return [{arguments}]
"""

_ACTIVATION = """\
    def forward(self, x):
        return x * torch.sigmoid(x)"""

_SOFTMAX = """\
    def forward(self, x):
        return torch.softmax(x, dim=1)"""

_LAYER_NORM = """\
    def __init__(self, normalized_shape):
        super().__init__()
        self.norm = nn.LayerNorm(normalized_shape)

    def forward(self, x):
        return self.norm(x)"""

_LINEAR_GELU = """\
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        return F.gelu(self.linear(x))"""

MODULES = {
    "activation": _FORM.format(body=_ACTIVATION, shape="4096, 16384", arguments=""),
    "softmax": _FORM.format(body=_SOFTMAX, shape="4096, 16384", arguments=""),
    "LayerNorm": _FORM.format(body=_LAYER_NORM, shape="16, 64, 256, 256", arguments="(64, 256, 256)"),
    "Linear+GELU": _FORM.format(body=_LINEAR_GELU, shape="1024, 4096", arguments="4096, 4096"),
}

_BIAS_GELU = """\
    def __init__(self, hidden):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(hidden) * 0.2)

    def forward(self, x):
        return F.gelu(x + self.bias)"""

SMALL = {"small bias+GELU": _FORM.format(body=_BIAS_GELU, shape="3, 11, 130", arguments="130")}
"""A module whose verification is all overhead."""
