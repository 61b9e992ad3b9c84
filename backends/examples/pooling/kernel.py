"""Each program makes a block of outputs and gathers their windows; the window's size is known when compiling."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def average_pool_kernel(
    x_ptr,
    y_ptr,
    n_outputs,
    height,
    width,
    out_height,
    out_width,
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    outputs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = outputs < n_outputs
    column = outputs % out_width
    row = outputs // out_width % out_height
    plane = outputs // (out_width * out_height)
    corner = plane * height * width + row * STRIDE * width + column * STRIDE
    sums = tl.zeros((BLOCK,), tl.float32)
    for i in tl.static_range(SIZE):
        for j in tl.static_range(SIZE):
            sums += tl.load(x_ptr + corner + i * width + j, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + outputs, (sums / (SIZE * SIZE)).to(y_ptr.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, size, stride):
        super().__init__()
        self.size, self.stride = size, stride

    def forward(self, x):
        x = x.contiguous()
        height, width = x.shape[-2:]
        out_height, out_width = (height - self.size) // self.stride + 1, (width - self.size) // self.stride + 1
        y = torch.empty((*x.shape[:-2], out_height, out_width), dtype=x.dtype, device=x.device)
        average_pool_kernel[(triton.cdiv(y.numel(), 256),)](
            x,
            y,
            y.numel(),
            height,
            width,
            out_height,
            out_width,
            SIZE=self.size,
            STRIDE=self.stride,
            BLOCK=256,
        )
        return y
