"""Matrix products: tiles on the tensor cores, the elementwise tail applied before the result is stored.

Operands are read by their strides, so a transposition is an index map and never a copy.
"""

from __future__ import annotations

from backends.compiler import accumulated
from backends.compiler.axes import presence
from backends.compiler.gemm_launch import launcher
from backends.compiler.group import Group
from backends.compiler.ir import Value
from backends.compiler.kernel import KernelText, formula
from backends.compiler.margin import TAB, jit, quoted
from backends.compiler.product import Product, coordinates, named
from backends.compiler.summed import looks, sums

OWN_NAMES = (
    "M",
    "N",
    "K",
    "batch",
    "tile_m",
    "tile_n",
    "tile_rows",
    "tile_columns",
    "first_m",
    "rows",
    "row",
    "column",
    "k",
    "a",
    "b",
    "acc",
    "inside",
    "stride_am",
    "stride_ak",
    "stride_bk",
    "stride_bn",
    "stride_ab",
    "stride_bb",
    "a_tile",
    "b_tile",
    "a_ptr",
    "b_ptr",
    "left",
    "right",
    "depth",
    "start",
    "begin",
    "end",
)


def write(group: Group, name: str, *, copies: bool = True) -> KernelText:
    """Write one product with its tail; with `copies` float32 factors are laid out along k first."""
    product = named(group, OWN_NAMES)
    return KernelText(
        _kernel(product, name),
        launcher(product, name, copies=copies),
        tuple(product.signature.operands),
        tuple(product.signature.scalars),
    )


# ---- the tail -----------------------------------------------------------------------------------


def tail(product: Product) -> list[str]:
    """Load what the tail reads, compute it on the accumulator, store the results."""
    where = _offset("(batch * M + row)" if product.is_batched else "row", "column")
    return accumulated.tail(
        product.group,
        product.signature,
        "acc",
        coordinates(product.op),
        lambda value: _place(product, value),
        (where, "inside"),
    )


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
    lines = [*_tiles(product), *_main_loop(product), "", "inside = (row < M) & (column < N)", *tail(product)]
    groups = [tensors, ["M", "N", "K", *strides, *names.scalars.values()], blocks]
    return jit(f"{name}_kernel", groups, quoted(doc, product.group.lines), lines)


def chosen_tile(product: Product) -> list[str]:
    """Choose the program's tile of the result."""
    return [
        *(["batch = tl.program_id(1).to(tl.int64)"] if product.is_batched else []),
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
    ]


def bases(product: Product) -> tuple[str, str]:
    """Point at the factors, in a batch at this program's own."""
    a, b = product.factor_pointers
    return (f"{a} + batch * stride_ab", f"{b} + batch * stride_bb") if product.is_batched else (a, b)


def _tiles(product: Product) -> list[str]:
    """Choose the program's tile, and point at the first blocks of its operands."""
    base_a, base_b = bases(product)
    return [
        *chosen_tile(product),
        "k = tl.arange(0, BLOCK_K)",
        f"a_tile = {base_a} + row * stride_am + k[None, :] * stride_ak",
        f"b_tile = {base_b} + k[:, None] * stride_bk + column * stride_bn",
        "",
    ]


def _main_loop(product: Product) -> list[str]:
    note = [f"{TAB}# three TF32 products: as exact as float32"] if product.is_single else []
    precision = ', input_precision="tf32x3"' if product.is_single else ""
    found, (base_a, base_b) = sums(product), bases(product)
    steps = [f"{factor}_tile += begin.to(tl.int64) * stride_{factor}k" for factor in "ab"]
    return [
        *found.lines,
        "acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)",
        *looks(found, f"{base_a} + row * stride_am", f"{base_b} + column * stride_bn"),
        *(steps if found.begin == "begin" else []),
        f"for start in range({found.begin}, {found.end}, BLOCK_K):",
        f"{TAB}a = tl.load(a_tile, mask=(row < M) & (k[None, :] < K - start), other=0.0)",
        f"{TAB}b = tl.load(b_tile, mask=(k[:, None] < K - start) & (column < N), other=0.0)",
        *note,
        f"{TAB}acc = tl.dot(a, b, acc{precision})",
        f"{TAB}a_tile += BLOCK_K * stride_ak",
        f"{TAB}b_tile += BLOCK_K * stride_bk",
    ]
