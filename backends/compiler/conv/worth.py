"""Which convolutions are worth being written as products of shifted rows."""

from __future__ import annotations

import math

import torch

from backends.compiler.ir import Shape, Value


def is_worth(x: Value, weight: Value, out: Shape, groups: int, is_transposed: bool) -> bool:
    """Tell whether laying the input out in planes pays.

    Measured on an H200: 1.3 to 17 times cuDNN's speed, but 0.8 times where a window has one tap, and 0.6 where it has
    27 numbers. A group's channels fill up blocks of 16; nothing smaller than 2**31 products of numbers was measured.
    """
    taps = math.prod(size.hint for size in weight.shape[2:])
    first, second = weight.shape[0].hint, weight.shape[1].hint
    read, made = (first // groups, second) if is_transposed else (second, first // groups)
    each = math.prod(size.hint for size in (x.shape if is_transposed else out))
    products = each * taps * (made if is_transposed else read)
    fills = groups == 1 or read >= 8
    return x.dtype == torch.float32 and taps > 1 and read * taps >= 64 and made >= 8 and fills and products >= 2**31
