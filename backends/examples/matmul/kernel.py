"""A tiled product with bias and sigmoid applied to the accumulator, before it is written."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_sigmoid_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    n_rows,
    n_out,
    n_in,
    ROWS: tl.constexpr,
    OUT: tl.constexpr,
    IN: tl.constexpr,
):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    outs = tl.program_id(1) * OUT + tl.arange(0, OUT)
    sums = tl.zeros((ROWS, OUT), tl.float32)
    for start in range(0, n_in, IN):
        ins = start + tl.arange(0, IN)
        x = tl.load(
            x_ptr + rows[:, None] * n_in + ins[None, :],
            mask=(rows[:, None] < n_rows) & (ins[None, :] < n_in),
            other=0.0,
        )
        weight = tl.load(
            weight_ptr + outs[None, :] * n_in + ins[:, None],
            mask=(outs[None, :] < n_out) & (ins[:, None] < n_in),
            other=0.0,
        )
        sums += tl.dot(x, weight, input_precision="ieee")  # float32 stays float32; half types use tensor cores
    h = sums + tl.load(bias_ptr + outs, mask=outs < n_out, other=0.0).to(tl.float32)[None, :]
    y = 1.0 / (1.0 + tl.exp(-h))
    tl.store(
        y_ptr + rows[:, None] * n_out + outs[None, :],
        y.to(y_ptr.dtype.element_ty),
        mask=(rows[:, None] < n_rows) & (outs[None, :] < n_out),
    )


class ModelNew(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)

    def forward(self, x):
        x = x.contiguous()
        weight, bias = self.linear.weight.contiguous(), self.linear.bias
        n_out, n_in = weight.shape
        n_rows = x.numel() // n_in
        y = torch.empty((*x.shape[:-1], n_out), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(n_rows, 64), triton.cdiv(n_out, 64))
        linear_sigmoid_kernel[grid](x, weight, bias, y, n_rows, n_out, n_in, ROWS=64, OUT=64, IN=32)
        return y
