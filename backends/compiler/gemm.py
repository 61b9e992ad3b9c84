"""Matrix products: tiles on the tensor cores, the elementwise tail applied before the result is stored.

Operands are read by their strides, so a transposition is an index map and never a copy.
"""

from __future__ import annotations

from backends.compiler.axes import presence
from backends.compiler.body import loaded, stored
from backends.compiler.gemm_launch import launcher
from backends.compiler.group import Group
from backends.compiler.ir import MatMul, Pointwise, Value
from backends.compiler.kernel import KernelText, formula
from backends.compiler.margin import TAB, jit, quoted
from backends.compiler.product import Product
from backends.compiler.signature import signature, wishes
from backends.compiler.text import Writer

OWN_NAMES = (
    "M", "N", "K", "batch", "tile_m", "tile_n", "tile_rows", "tile_columns", "first_m", "rows", "row", "column", "k",
    "a", "b", "acc", "inside", "stride_am", "stride_ak", "stride_bk", "stride_bn", "stride_ab", "stride_bb", "a_tile",
    "b_tile", "a_ptr", "b_ptr", "left", "right",
)


def write(group: Group, name: str) -> KernelText:
    """Write one product with its tail."""
    op = group.ops[0]
    assert isinstance(op, MatMul)
    is_batched = len(op.out.shape) > 2 and len(op.b.shape) > 2
    product = Product(group, op, signature(group, OWN_NAMES), is_batched)
    return KernelText(
        _kernel(product, name), launcher(product, name),
        tuple(product.signature.operands), tuple(product.signature.scalars),
    )


# ---- the tail -----------------------------------------------------------------------------------


def _tail(product: Product) -> list[str]:
    """Load what the tail reads, compute it on the accumulator, store the results."""
    lines, names, group = [], {product.op.out: "acc"}, product.group
    writer = Writer(names, product.signature.scalars, {2: "row", 1: "column"})
    for op in group.ops[1:]:
        assert isinstance(op, Pointwise)
        for value in op.inputs:
            if value not in names:
                names[value] = product.signature.operands[value]
                lines.append(f"{names[value]} = {loaded(names[value], *_place(product, value), value.dtype)}")
        text = writer.write(op.expr)
        known = product.signature.results.get(op.out)
        names[op.out] = known or product.signature.names.unused(*wishes(op, group))
        lines.append(f"{names[op.out]} = {text}")
    where = _offset("(batch * M + row)" if product.is_batched else "row", "column")
    return lines + [
        stored(product.signature.results[value], where, "inside", names[value]) for value in group.outputs
    ]


def _offset(*coordinates: str) -> str:
    """Write the offset of an element of the result's last dimensions."""
    return " * N + ".join(coordinates)


def _place(product: Product, value: Value) -> tuple[str, str]:
    """Address of an operand of the tail: the whole result, one number a column, a row, or one in all."""
    shape = product.op.out.shape
    has = presence(value.shape, shape)
    lead, row, column = any(has[:-2]), has[-2], has[-1]
    if value.shape == shape:
        return _offset("(batch * M + row)" if product.is_batched else "row", "column"), "inside"
    whole = [present or size.hint == 1 for present, size in zip(has, shape, strict=True)]
    if product.is_batched:
        if lead and not all(whole[:-2]):
            raise ValueError("an operand of the tail that has some of the batch dimensions")
        line = "(batch * M + row)" if lead and row else "batch" if lead else "row" if row else ""
    else:
        if (lead or row) and not all(whole[:-1]):
            raise ValueError("an operand of the tail that has some of the row dimensions")
        row = row or lead
        line = "row" if row else ""
    mask = "inside" if row and column else "row < M" if row else "column < N" if column else ""
    if line and column:
        return _offset(line, "column"), mask
    return "column" if column else line.strip("()"), mask


# ---- the kernel ---------------------------------------------------------------------------------


def _kernel(product: Product, name: str) -> str:
    names = product.signature
    tensors = [*product.factor_pointers, *(f"{n}_ptr" for n in product.tail_operands.values())]
    tensors += [f"{result}_ptr" for result in names.results.values()]
    strides = ["stride_am", "stride_ak", "stride_bk", "stride_bn"]
    strides += ["stride_ab", "stride_bb"] if product.is_batched else []
    blocks = [f"{constant}: tl.constexpr" for constant in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M")]
    doc = f"{formula(product.group)}: [M, K] times [K, N], the tail on the accumulator."
    lines = [*_tiles(product), *_main_loop(product), "", "inside = (row < M) & (column < N)", *_tail(product)]
    groups = [tensors, ["M", "N", "K", *strides, *names.scalars.values()], blocks]
    return jit(f"{name}_kernel", groups, quoted(doc, product.group.lines), lines)


def _tiles(product: Product) -> list[str]:
    """Choose the program's tile, and point at the first blocks of its operands."""
    base_a, base_b = product.factor_pointers
    batch = []
    if product.is_batched:
        batch = ["batch = tl.program_id(1).to(tl.int64)"]
        base_a, base_b = f"{base_a} + batch * stride_ab", f"{base_b} + batch * stride_bb"
    return [
        *batch,
        "# neighbouring programs take tiles below each other: they find b's columns in the L2 cache",
        "tile_rows, tile_columns = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)",
        "pid = tl.program_id(0)",
        "first_m = pid // (GROUP_M * tile_columns) * GROUP_M",
        "rows = min(tile_rows - first_m, GROUP_M)",
        "tile_m = first_m + pid % (GROUP_M * tile_columns) % rows",
        "tile_n = pid % (GROUP_M * tile_columns) // rows",
        "# int64: M * N may pass 2**31",
        "row = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]",
        "column = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)[None, :]",
        "k = tl.arange(0, BLOCK_K)",
        f"a_tile = {base_a} + row * stride_am + k[None, :] * stride_ak",
        f"b_tile = {base_b} + k[:, None] * stride_bk + column * stride_bn",
        "",
    ]


def _main_loop(product: Product) -> list[str]:
    note = [f"{TAB}# three TF32 products: as exact as float32"] if product.is_single else []
    precision = ', input_precision="tf32x3"' if product.is_single else ""
    return [
        "acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)",
        "for start in range(0, K, BLOCK_K):",
        f"{TAB}a = tl.load(a_tile, mask=(row < M) & (k[None, :] < K - start), other=0.0)",
        f"{TAB}b = tl.load(b_tile, mask=(k[:, None] < K - start) & (column < N), other=0.0)",
        *note,
        f"{TAB}acc = tl.dot(a, b, acc{precision})",
        f"{TAB}a_tile += BLOCK_K * stride_ak",
        f"{TAB}b_tile += BLOCK_K * stride_bk",
    ]
