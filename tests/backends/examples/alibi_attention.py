"""Attention in which what lies further back weighs less, at a slope of its own for each head (ALiBi)."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.register_buffer("slopes", torch.tensor([2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)]))

    def forward(self, q, k, v):
        at = torch.arange(q.shape[-2], device=q.device)
        distance = at[None, :] - at[:, None]
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        scores = scores + self.slopes[:, None, None] * distance
        scores = scores.masked_fill(distance > 0, float("-inf"))
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    return [torch.randn(2, 4, 48, 16) for _ in range(3)]


def get_init_inputs():
    return [4]
