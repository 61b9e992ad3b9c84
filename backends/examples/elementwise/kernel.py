"""Bias, ReLU and scale in one pass: each element is read once and written once."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bias_relu_scale_kernel(x_ptr, bias_ptr, y_ptr, n_elements, n_columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    bias = tl.load(bias_ptr + offsets % n_columns, mask=inside, other=0.0)
    h = x + bias
    h = tl.where(h > 0, h, tl.where(h == h, 0.0, h))  # a NaN stays one
    tl.store(y_ptr + offsets, h * 0.5, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n_elements = x.numel()
        bias_relu_scale_kernel[(triton.cdiv(n_elements, 1024),)](x, self.bias, y, n_elements, x.shape[-1], BLOCK=1024)
        return y
