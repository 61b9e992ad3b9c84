"""One program a row, held whole in registers: read once, written once. Lanes past the row must not count."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < n_columns
    x = tl.load(x_ptr + row * n_columns + columns, mask=inside, other=-float("inf")).to(tl.float32)
    shifted = x - tl.max(x, axis=0)
    numerator = tl.where(inside, tl.exp(shifted), 0.0)
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(y_ptr + row * n_columns + columns, y.to(y_ptr.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n_columns = x.shape[-1]
        block = triton.next_power_of_2(n_columns)
        softmax_kernel[(x.numel() // n_columns,)](x, y, n_columns, BLOCK=block, num_warps=min(max(block // 256, 1), 16))
        return y
