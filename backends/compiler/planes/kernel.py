"""The kernel of a product of planes: three products a block, or one, the scales undone, then the tail."""

from __future__ import annotations

from backends.compiler.gemm import bases, chosen_tile, tail
from backends.compiler.kernel import formula
from backends.compiler.margin import TAB, jit, quoted
from backends.compiler.product import Product
from backends.compiler.summed import Sums, sums


def kernel(product: Product, name: str, planes: int) -> str:
    """Write the kernel; `planes` is how many float16 planes stand for a factor."""
    names = product.signature
    tensors = ["a_planes", "b_planes", "a_scales_ptr", "b_scales_ptr", *product.factor_pointers]
    tensors += [f"{n}_ptr" for n in (*product.tail_operands.values(), *names.results.values())]
    strides = ["stride_am", "stride_ak", "stride_bn", "stride_bk"]
    strides += ["stride_ab", "stride_bb"] if product.is_batched else []
    blocks = [f"{constant}: tl.constexpr" for constant in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M")]
    form = "from two float16 planes each" if planes == 2 else "rounded to float16"
    found = sums(product)
    doc = f"{formula(product.group)}: [M, K] times [K, N] {form}, the tail on the accumulator."
    lines = [
        *chosen_tile(product),
        *_rows_of_planes(product),
        "",
        *found.lines,
        *(_two_planes(found) if planes == 2 else _one_plane(found)),
        "",
        "inside = (row < M) & (column < N)",
        *_undo_scales(product, found.depth),
        "",
        *tail(product),
    ]
    groups = [tensors, ["M", "N", "K", *strides, *names.scalars.values()], blocks]
    return jit(f"{name}_kernel", groups, quoted(doc, product.group.lines), lines)


def _rows_of_planes(product: Product) -> list[str]:
    """Find the tile's rows in the planes: all high ones, of one matrix after the other, lie above all low ones."""
    if product.is_batched:
        return [
            "a_row = tl.program_id(1) * M + tile_m * BLOCK_M",
            "b_row = tl.program_id(1) * N + tile_n * BLOCK_N",
            "a_rows, b_rows = tl.num_programs(1) * M, tl.num_programs(1) * N",
        ]
    return ["a_row, b_row, a_rows, b_rows = tile_m * BLOCK_M, tile_n * BLOCK_N, M, N"]


def _one_plane(found: Sums) -> list[str]:
    return [
        "acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)",
        f"for k in range({found.begin}, {found.end}, BLOCK_K):",
        f"{TAB}a = a_planes.load([a_row, k])",
        f"{TAB}b = b_planes.load([b_row, k]).T",
        f"{TAB}acc = tl.dot(a, b, acc)",
    ]


def _two_planes(found: Sums) -> list[str]:
    return [
        "acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)",
        "low = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)",
        f"for k in range({found.begin}, {found.end}, BLOCK_K):",
        f"{TAB}a_high = a_planes.load([a_row, k])",
        f"{TAB}a_low = a_planes.load([a_rows + a_row, k])",
        f"{TAB}b_high = b_planes.load([b_row, k]).T",
        f"{TAB}b_low = b_planes.load([b_rows + b_row, k]).T",
        f"{TAB}acc, low = add_products(acc, low, a_high, a_low, b_high, b_low, BLOCK_K)",
        "acc += low / 2048",
    ]


def _undo_scales(product: Product, depth: str) -> list[str]:
    """Multiply the scales out, and compute again what the planes were too narrow for."""
    base_a, base_b = bases(product)
    batch_a, batch_b = ("batch * M + ", "batch * N + ") if product.is_batched else ("", "")
    of_a, of_b = f"a_scales_ptr + {batch_a}row", f"b_scales_ptr + {batch_b}column"
    arguments = [
        f"{base_a} + row * stride_am",
        f"{base_b} + column * stride_bn",
        "row < M",
        "column < N",
        "K",
        "stride_ak",
        "stride_bk",
        "BLOCK_M",
        "BLOCK_N",
    ]
    return [
        "# a sum below what the planes may have lost is not to be trusted, nor is a NaN",
        f"a_lost = tl.load({of_a} + a_rows, mask=row < M, other=0.0)",
        f"b_lost = tl.load({of_b} + b_rows, mask=column < N, other=0.0)",
        "is_exact = (tl.abs(acc) >= a_lost + b_lost) | ~inside",
        f"acc *= tl.load({of_a}, mask=row < M, other=0.0)",
        f"acc *= tl.load({of_b}, mask=column < N, other=0.0)",
        f"if tl.min(is_exact.to(tl.int32)) == 0{' and depth > 0' if depth != 'K' else ''}:",
        f"{TAB}acc = float32_product({', '.join(arguments)})",
    ]
