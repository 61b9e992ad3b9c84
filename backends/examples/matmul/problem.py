"""A linear layer and what follows it."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)

    def forward(self, x):
        return torch.sigmoid(self.linear(x))


def get_inputs():
    return [torch.randn(64, 96)]


def get_init_inputs():
    return [96, 128]
