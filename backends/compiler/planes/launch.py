"""The launcher of a product of planes: the factors as rows along k, their planes, the result."""

from __future__ import annotations

from backends.compiler.gemm_launch import launches, prepared
from backends.compiler.margin import function, launch, quoted
from backends.compiler.product import Product


def launcher(product: Product, name: str) -> str:
    """Write the function that splits the factors and launches a product's kernel."""
    names = product.signature
    strides = ["*left.stride()[-2:]", "*right.stride()[-2:]"]
    strides += ["left.stride(0)", "right.stride(0)"] if product.is_batched else []
    tiles = "triton.cdiv(M, block_m) * triton.cdiv(N, block_n)"
    tensors = [
        "a_boxes",
        "b_boxes",
        "a_scales",
        "b_scales",
        "left",
        "right",
        *product.tail_operands.values(),
        *names.results.values(),
    ]
    blocks = ["BLOCK_M=block_m", "BLOCK_N=block_n", "BLOCK_K=block_k", "GROUP_M=8"]
    lines = [
        *prepared(product, [] if product.op.b_is_nk else ["right = right.mT  # rows along k: only the strides change"]),
        "a_planes, a_scales = planes_of(left, split_in_planes)",
        "b_planes, b_scales = planes_of(right, split_in_planes)",
        "M, N, K = left.shape[-2], right.shape[-2], left.shape[-1]",
        "block_m, block_n, block_k, warps, stages = planes_tile()",
        "a_boxes = TensorDescriptor.from_tensor(a_planes, [block_m, block_k])",
        "b_boxes = TensorDescriptor.from_tensor(b_planes, [block_n, block_k])",
        *launch(
            f"{name}_kernel",
            f"({tiles}, left.shape[0])" if product.is_batched else f"({tiles},)",
            [
                [*tensors, "M", "N", "K", *strides, *names.scalars.values()],
                [*blocks, "num_warps=warps", "num_stages=stages"],
            ],
        ),
        f"return {', '.join(names.results.values())}",
    ]
    return function(name, names.parameters, quoted(launches(product)), lines)
