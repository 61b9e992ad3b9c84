"""Which convolutions are worth being written as products of shifted rows, and which of those beat the library."""

from __future__ import annotations

import math

import torch

from backends.compiler.ir import Shape, Value


def is_worth(x: Value, weight: Value, out: Shape, groups: int, is_transposed: bool) -> bool:
    """Tell whether laying the input out in planes is better than gathering it where it lies.

    A window of one tap shares no rows. A group's channels fill up blocks of 16; nothing smaller than 2**31 products of
    numbers was measured.
    """
    taps = math.prod(size.hint for size in weight.shape[2:])
    first, second = weight.shape[0].hint, weight.shape[1].hint
    read, made = (first // groups, second) if is_transposed else (second, first // groups)
    each = math.prod(size.hint for size in (x.shape if is_transposed else out))
    products = each * taps * (made if is_transposed else read)
    fills = groups == 1 or read >= 8
    return x.dtype == torch.float32 and taps > 1 and read * taps >= 64 and made >= 8 and fills and products >= 2**31


def beats_library(weight: Value, is_transposed: bool) -> bool:
    """Tell whether shifted rows are faster than the library's convolution, for one that is worth them.

    Measured on an H200 from two planes: in three dimensions 2.1 to 3.1 times cuDNN's speed transposed, else 2.0 times
    with windows of 315 numbers and 0.9 with 81. In one and two dimensions cuDNN mostly takes TF32: 0.5 to 1.5 times.
    """
    window = math.prod(size.hint for size in weight.shape[1:])
    return len(weight.shape) == 5 and (is_transposed or window >= 256)
