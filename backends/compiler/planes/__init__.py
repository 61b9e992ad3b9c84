"""float32 products on the float16 tensor cores: each factor split into float16 planes.

Of two planes a product is as exact as float32's: three float16 products take a third of the time of the three TF32
products that the usual kernel takes. Of one plane it is as exact as TF32's, at twice the speed of those.
"""

from __future__ import annotations

import math

import torch

from backends.compiler.gemm import OWN_NAMES
from backends.compiler.group import Group
from backends.compiler.ir import MatMul
from backends.compiler.kernel import KernelText
from backends.compiler.planes.kernel import kernel
from backends.compiler.planes.launch import launcher
from backends.compiler.product import is_batched, named

NAMES = (
    "a_planes",
    "b_planes",
    "a_scales",
    "b_scales",
    "a_row",
    "b_row",
    "a_rows",
    "b_rows",
    "a_high",
    "a_low",
    "b_high",
    "b_low",
    "low",
    "block",
    "a_lost",
    "b_lost",
    "is_exact",
    "a_boxes",
    "b_boxes",
    "stages",
)


def is_worth(group: Group) -> bool:
    """Tell whether a product is large enough for splitting its factors to pay.

    From there on planes ran at 1.0 to 5.4 times cuBLAS's speed on an H200, kernels of TF32 parts at 0.6 to 2.3 times. A
    short side or few products of numbers leave most of the time to the splitting, a short k to the storing: with k = 32
    planes ran at 0.7 times, kernels of TF32 parts as fast as cuBLAS.
    """
    op = group.ops[0]
    assert isinstance(op, MatMul)
    *_, m, n = op.out.hints
    k, results = op.a.hints[-1], math.prod(op.out.hints)
    rows = m if is_batched(op) else results // n
    return (
        op.a.dtype == torch.float32 and min(rows, n) >= 256 and k >= 128 and results >= 2**20 and results * k >= 2**30
    )


def write(group: Group, name: str, planes: int) -> KernelText:
    """Write one product with its tail; `planes` is how many float16 planes stand for a factor."""
    product = named(group, (*OWN_NAMES, *NAMES))
    return KernelText(
        kernel(product, name, planes),
        launcher(product, name),
        tuple(product.signature.operands),
        tuple(product.signature.scalars),
        planes,
    )
