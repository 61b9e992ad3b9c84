"""Attention between the pixels of an image: each sees the square around it."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, height, width, reach):
        super().__init__()
        rows = torch.arange(height).repeat_interleave(width)
        columns = torch.arange(width).repeat(height)
        near_rows = (rows[:, None] - rows[None, :]).abs() <= reach
        near_columns = (columns[:, None] - columns[None, :]).abs() <= reach
        self.register_buffer("near", near_rows & near_columns)

    def forward(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(~self.near, float("-inf"))
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    return [torch.randn(2, 4, 48, 16) for _ in range(3)]


def get_init_inputs():
    return [6, 8, 2]
