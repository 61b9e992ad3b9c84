"""Attention in which a position sees the last few positions and itself."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window = window

    def forward(self, q, k, v):
        at = torch.arange(q.shape[-2], device=q.device)
        back = at[:, None] - at[None, :]
        seen = (back >= 0) & (back < self.window)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(~seen, float("-inf"))
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    return [torch.randn(2, 4, 48, 16) for _ in range(3)]


def get_init_inputs():
    return [8]
