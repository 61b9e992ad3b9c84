"""Small kernels with known answers, one for each part of the language that interpreters have got wrong.

Imported only where Triton's interpreter is switched on.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

SIZE = 16
Answer = tuple[Tensor, Tensor]
"""What the interpreter gives, and what is right."""


@triton.jit  # type: ignore[untyped-decorator]
def _bfloat16(x_ptr, y_ptr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, SIZE)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, tl.where(x > 1.0, x * x - x, -x))


def probe_bfloat16() -> Answer:
    """Arithmetic and comparison, each step rounded to nearest even."""
    x = (torch.arange(SIZE) * 0.3712 - 1.1).bfloat16()
    y = torch.empty_like(x)
    _bfloat16[(1,)](x, y, SIZE)
    return y, torch.where(x > 1, x * x - x, -x)


@triton.jit  # type: ignore[untyped-decorator]
def _casts(x_ptr, half_ptr, narrow_ptr, whole_ptr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, SIZE)
    x = tl.load(x_ptr + at)
    tl.store(half_ptr + at, x.to(tl.float16).to(tl.float32))
    tl.store(narrow_ptr + at, x.to(tl.bfloat16).to(tl.float32))
    tl.store(whole_ptr + at, x.to(tl.int32))


def probe_casts() -> Answer:
    """To both half types and back, and to integers, towards zero."""
    x = torch.linspace(-300.7, 300.7, SIZE)
    half, narrow, whole = torch.empty_like(x), torch.empty_like(x), torch.empty(SIZE, dtype=torch.int32)
    _casts[(1,)](x, half, narrow, whole, SIZE)
    return torch.stack([half, narrow, whole.float()]), torch.stack([x.half().float(), x.bfloat16().float(), x.trunc()])


@triton.jit  # type: ignore[untyped-decorator]
def _dot(a_ptr, b_ptr, y_ptr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    row, column = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    a = tl.load(a_ptr + row * SIZE + column)
    b = tl.load(b_ptr + row * SIZE + column)
    tl.store(y_ptr + row * SIZE + column, tl.dot(a, b))


def probe_dot() -> Answer:
    """A product of small whole numbers in bfloat16, exact in float32."""
    a = (torch.arange(SIZE * SIZE).reshape(SIZE, SIZE) % 7 - 3).bfloat16()
    y = torch.empty(SIZE, SIZE)
    _dot[(1,)](a, a.t().contiguous(), y, SIZE)
    return y, a.float() @ a.float().t()


@triton.jit  # type: ignore[untyped-decorator]
def _libdevice(x_ptr, y_ptr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, SIZE)
    tl.store(y_ptr + at, libdevice.trunc(tl.load(x_ptr + at)))


def probe_libdevice() -> Answer:
    """A function that is exact."""
    x = torch.linspace(-3.3, 3.3, SIZE)
    y = torch.empty_like(x)
    _libdevice[(1,)](x, y, SIZE)
    return y, x.trunc()


@triton.jit
def _larger(a, b):  # type: ignore[no-untyped-def]
    return tl.maximum(a, b)


@triton.jit  # type: ignore[untyped-decorator]
def _scans(x_ptr, y_ptr, z_ptr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, SIZE)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, tl.cumsum(x, 0))
    tl.store(z_ptr + at, tl.associative_scan(x, 0, _larger))


def probe_scans() -> Answer:
    """A running sum, and a running maximum by a function of one's own."""
    x = (torch.arange(SIZE) * 5 % 11).float()
    y, z = torch.empty_like(x), torch.empty_like(x)
    _scans[(1,)](x, y, z, SIZE)
    return torch.stack([y, z]), torch.stack([x.cumsum(0), x.cummax(0).values])


@triton.jit  # type: ignore[untyped-decorator]
def _reductions(x_ptr, y_ptr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    row, column = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    x = tl.load(x_ptr + row * SIZE + column)
    at = tl.arange(0, SIZE)
    tl.store(y_ptr + at, tl.sum(x, axis=1))
    tl.store(y_ptr + SIZE + at, tl.max(x, axis=0))
    tl.store(y_ptr + 2 * SIZE + at, tl.argmin(x, axis=1).to(tl.float32))


def probe_reductions() -> Answer:
    """Sums of rows, largest of columns, and where the smallest is."""
    x = (torch.arange(SIZE * SIZE).reshape(SIZE, SIZE) * 7 % 257).float()
    y = torch.empty(3, SIZE)
    _reductions[(1,)](x, y, SIZE)
    return y, torch.stack([x.sum(1), x.amax(0), x.argmin(1).float()])


@triton.jit  # type: ignore[untyped-decorator]
def _atomics(x_ptr, y_ptr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, SIZE)
    x = tl.load(x_ptr + at)
    tl.atomic_add(y_ptr + at % 4, x)
    tl.atomic_max(y_ptr + 4 + at % 4, x)


def probe_atomics() -> Answer:
    """Several lanes at one address."""
    x = (torch.arange(SIZE) + 1).float()
    y = torch.zeros(8)
    _atomics[(1,)](x, y, SIZE)
    parts = x.reshape(-1, 4)
    return y, torch.cat([parts.sum(0), parts.amax(0)])


@triton.jit  # type: ignore[untyped-decorator]
def _loops(x_ptr, y_ptr, n, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    total = tl.zeros((SIZE,), tl.float32)
    for start in range(0, n, SIZE):
        at = start + tl.arange(0, SIZE)
        total += tl.load(x_ptr + at, mask=at < n, other=0.0)
    turns = tl.load(y_ptr).to(tl.int32)
    for _ in range(turns):
        total += 1.0
    tl.store(y_ptr, tl.sum(total, axis=0))


def probe_loops() -> Answer:
    """Bounds that are arguments, and one that was loaded."""
    x = torch.arange(40).float()
    y = torch.full((1,), 3.0)
    _loops[(1,)](x, y, 40, SIZE)
    return y, x.sum(0, keepdim=True) + 3 * SIZE
