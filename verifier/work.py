"""How much arithmetic an operation of PyTorch is: multiply-adds of products and convolutions, elements elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

PRODUCTS = frozenset("mm addmm bmm baddbmm linear mv addmv dot".split())


def products(name: str, args: Sequence[Any], outputs: Sequence[Tensor]) -> int:
    """Count the multiply-adds of a matrix product; 0 for everything else."""
    operands = [a for a in args if isinstance(a, Tensor)]
    if not outputs or name not in PRODUCTS:
        return 0
    return outputs[0].numel() * operands[-2 if len(operands) > 1 else -1].shape[-1]


def convolved(name: str, args: Sequence[Any], outputs: Sequence[Tensor]) -> int:
    """Count the multiply-adds of a convolution; 0 for everything else."""
    operands = [a for a in args if isinstance(a, Tensor)]
    if not outputs or "convolution" not in name or len(operands) < 2:
        return 0
    wide = args[0] if args[6] else outputs[0]  # transposed: every input element meets the whole weight
    return int(wide.numel()) * math.prod(operands[1].shape[1:])


def cost(name: str, args: Sequence[Any], result: Any) -> int:
    """Count what an operation does: elements read or written, whichever are more, and multiply-adds."""
    outputs = [t for t in (result if isinstance(result, (list, tuple)) else [result]) if isinstance(t, Tensor)]
    operands = [a for a in args if isinstance(a, Tensor)]
    touched = max([t.numel() for t in [*operands, *outputs]], default=0)
    attended = 0
    if "scaled_dot_product" in name and len(operands) > 2:
        attended = 2 * operands[0].numel() * operands[1].shape[-2]
    return touched + products(name, args, outputs) + convolved(name, args, outputs) + attended
