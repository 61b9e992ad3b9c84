"""The launcher of a matrix product: the factors' layouts, the result, the tiles."""

from __future__ import annotations

from backends.compiler.margin import TAB, function, launch, quoted
from backends.compiler.product import Product
from backends.compiler.shapes import shape_checks


def launcher(product: Product, name: str, *, copies: bool) -> str:
    """Write the function that launches a product's kernel; without `copies` a [k, n] factor is read where it lies."""
    names = product.signature
    strides = ["*left.stride()[-2:]", "*right.stride()[-2:]"]
    strides += ["left.stride(0)", "right.stride(0)"] if product.is_batched else []
    tiles = "triton.cdiv(M, block_m) * triton.cdiv(N, block_n)"
    grid = f"({tiles}, left.shape[0])" if product.is_batched else f"({tiles},)"
    tensors = ["left", "right", *product.tail_operands.values(), *names.results.values()]
    blocks = ["BLOCK_M=block_m", "BLOCK_N=block_n", "BLOCK_K=block_k", "GROUP_M=8"]
    lines = [
        *prepared(product, _oriented(product, copies)),
        "M, K, N = left.shape[-2], left.shape[-1], right.shape[-1]",
        "block_m, block_n, block_k, warps = gemm_tile(M, N)",
        *launch(
            f"{name}_kernel",
            grid,
            [
                [*tensors, "M", "N", "K", *strides, *names.scalars.values()],
                [*blocks, "num_warps=warps", "num_stages=3"],
            ],
        ),
        f"return {', '.join(names.results.values())}",
    ]
    return function(name, names.parameters, quoted(launches(product)), lines)


def prepared(product: Product, oriented: list[str]) -> list[str]:
    """Write what a launcher does before it launches: layouts, checks, the factors as the kernel reads them, results."""
    names, op = product.signature, product.op
    a = names.operands[op.a]
    return [
        *(f"{n} = {n}.contiguous()" for value, n in product.tail_operands.items() if not value.dense),
        *_factors(product),
        *shape_checks(product.tail_operands, op.out.shape, ""),
        *oriented,
        *(
            f"{n} = {a}.new_empty(shape{f', dtype={v.dtype}' if v.dtype != op.a.dtype else ''})"
            for v, n in names.results.items()
        ),
    ]


def launches(product: Product) -> str:
    """Say over what a launcher launches, and the shapes."""
    op, operands = product.op, product.signature.operands
    lead = "..., " if product.is_batched else ""
    shapes = f"(..., M, K) and ({lead}{'N, K' if op.b_is_nk else 'K, N'})"
    factors = f"{operands[op.a]} @ {operands[op.b]}{'.mT' if op.b_is_nk else ''}"
    return f"Launch over all tiles of {factors}, shapes {shapes}."


def _factors(product: Product) -> list[str]:
    """Check the factors; a's leading dimensions count as rows, or both factors' become one batch."""
    op, operands = product.op, product.signature.operands
    a, b = operands[op.a], operands[op.b]
    n_dim, k_dim = (-2, -1) if op.b_is_nk else (-1, -2)
    check = [
        f"if {a}.shape[-1] != {b}.shape[{k_dim}]:",
        f'{TAB}raise ValueError(f"cannot multiply {{tuple({a}.shape)}} by {{tuple({b}.shape)}}")',
    ]
    if not product.is_batched:
        return [
            *check,
            f"shape = (*{a}.shape[:-1], {b}.shape[{n_dim}])",
            f"left, right = {a}.flatten(0, -2), {b}",
        ]
    return [
        *check,
        f"batch = torch.broadcast_shapes({a}.shape[:-2], {b}.shape[:-2])",
        f"shape = (*batch, {a}.shape[-2], {b}.shape[{n_dim}])",
        f"left = {a}.expand(*batch, -1, -1).flatten(0, -3)",
        f"right = {b}.expand(*batch, -1, -1).flatten(0, -3)",
    ]


def _oriented(product: Product, copies: bool) -> list[str]:
    """Read b as [k, n], and lay out what the tensor cores would otherwise read slowly."""
    if product.is_single and not copies and not product.op.b_is_nk:
        return ["left = along_k(left)"]
    if product.is_single:
        k_first = "right" if product.op.b_is_nk else "right.mT"
        return [f"left, right = along_k(left), along_k({k_first}).mT"]
    if product.op.b_is_nk:
        return ["right = right.mT  # [n, k] read as [k, n]: only the strides change"]
    return []
