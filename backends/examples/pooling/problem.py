"""A window that slides over an image."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size, stride):
        super().__init__()
        self.pool = nn.AvgPool2d(size, stride)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(2, 4, 33, 30)]


def get_init_inputs():
    return [3, 2]
