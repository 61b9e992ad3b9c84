"""One program a row; the row is read in blocks, so that any length is right, and summed in float32."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_mean_kernel(x_ptr, y_ptr, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_columns, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        sums += tl.load(x_ptr + row * n_columns + columns, mask=columns < n_columns, other=0.0).to(tl.float32)
    tl.store(y_ptr + row, tl.sum(sums, axis=0) / n_columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty((*x.shape[:-1], 1), dtype=x.dtype, device=x.device)
        row_mean_kernel[(y.numel(),)](x, y, x.shape[-1], BLOCK=1024)
        return y
