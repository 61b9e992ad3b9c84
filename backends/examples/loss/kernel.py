"""Partial sums by many programs, then one program adds them in a fixed order: the same bits every time."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def partial_squares_kernel(a_ptr, b_ptr, partial_ptr, n_elements, BLOCK: tl.constexpr):
    program = tl.program_id(0).to(tl.int64)
    offsets = program * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n_elements
    a = tl.load(a_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    tl.store(partial_ptr + program, tl.sum((a - b) * (a - b), axis=0))


@triton.jit
def mean_of_partials_kernel(partial_ptr, y_ptr, n_partials, n_elements, BLOCK: tl.constexpr):
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_partials, BLOCK):
        at = start + tl.arange(0, BLOCK)
        sums += tl.load(partial_ptr + at, mask=at < n_partials, other=0.0)
    tl.store(y_ptr, (tl.sum(sums, axis=0) / n_elements).to(y_ptr.dtype.element_ty))


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        prediction, target = prediction.contiguous(), target.contiguous()
        n_elements = prediction.numel()
        n_partials = triton.cdiv(n_elements, 4096)
        partial = torch.empty(n_partials, dtype=torch.float32, device=prediction.device)
        y = torch.empty((), dtype=prediction.dtype, device=prediction.device)
        partial_squares_kernel[(n_partials,)](prediction, target, partial, n_elements, BLOCK=4096)
        mean_of_partials_kernel[(1,)](partial, y, n_partials, n_elements, BLOCK=1024)
        return y
