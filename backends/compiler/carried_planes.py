"""What a file carries whose products are of planes: how a factor is split, the products, and the exact product.

Two float16 planes hold what a float32 holds but for two bits; one plane holds what the tensor cores take as TF32.
"""

from __future__ import annotations

TILE = {
    1: '''def planes_tile():
    """Choose (BLOCK_M, BLOCK_N, BLOCK_K, warps, stages): what just fits the registers."""
    return 128, 128, 64, 8, 4
''',
    2: '''def planes_tile():
    """Choose (BLOCK_M, BLOCK_N, BLOCK_K, warps, stages): what just fits the registers."""
    return 128, 128, 64, 8, 3
''',
}

KEPT = """KEPT_PLANES = WeakTensorKeyDictionary()  # of parameters, as long as those live
# fused optimizers change a parameter without counting a version
register_optimizer_step_post_hook(lambda *_: KEPT_PLANES.clear())
"""

OF = '''def planes_of(tensor, split, *layout):
    """Split a tensor in planes: a parameter once, and again when its version has changed.

    PyTorch counts no version for what is written through a parameter's .data.
    """
    weight = tensor if tensor._base is None else tensor._base
    if not isinstance(weight, torch.nn.Parameter) or weight.is_inference():
        return split(tensor, *layout)
    state = weight._version, tensor.data_ptr(), tensor.shape, tensor.stride(), layout
    kept = KEPT_PLANES.get(weight)
    if kept is None or kept[0] != state:
        # holding the storage keeps another weight from coming to lie at its address
        kept = state, split(tensor, *layout), tensor.untyped_storage()
        KEPT_PLANES[weight] = kept
    return kept[1]
'''

POWER = '''@triton.jit
def power_of(largest):
    """Choose the power of two that brings a largest number between 2**13 and 2**14."""
    # a float32 holds its exponent, and 127, above its 23 bits
    exponent = (largest.to(tl.int32, bitcast=True) >> 23) - 127
    return tl.minimum(tl.maximum(13 - exponent, -40), 63)
'''

TWO_TO_THE = '''@triton.jit
def two_to_the(power):
    """Return a power of two in float32."""
    return ((127 + power) << 23).to(tl.float32, bitcast=True)
'''

TWO_PLANES = '''@triton.jit
def two_planes(scaled):
    """Split float32 in (high, low), which is high + low / 2**11: 22 bits in two float16."""
    high = scaled.to(tl.float16)
    return high, ((scaled - high.to(tl.float32)) * 2048).to(tl.float16)
'''

FAINT = '''@triton.jit
def is_faint(x, scaled):
    """Tell where float16 lacks digits: scaled, a number is below its least normal one."""
    return (x != 0.0) & (tl.abs(scaled) < 1 / 16384)
'''

ADD = '''@triton.jit
def add_products(acc, low, a_high, a_low, b_high, b_low, BLOCK_K: tl.constexpr):
    """Add a block's products to two sums: of high planes, and of high with low ones.

    Low by low would lie below the last bit.
    """
    # each block has a sum of its own, added to the others outside of the tensor cores:
    # those drop bits of what they add to a large sum (on an H200 errors of 1.4e-5
    # instead of 2e-7)
    block = tl.dot(a_high, b_high, max_num_imprecise_acc=BLOCK_K)
    low = tl.dot(a_high, b_low, low)
    low = tl.dot(a_low, b_high, low)
    return acc + block, low
'''

EXACT = '''@triton.jit
def float32_product(
    a_rows, b_columns, row_inside, column_inside, K, stride_ak, stride_bk,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Multiply a tile without tensor cores: slow, and right for any numbers."""
    k = tl.arange(0, 16)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    # one stage: the registers are full, nothing is loaded ahead
    for start in tl.range(0, K, 16, num_stages=1):
        a_place = a_rows + (start + k)[None, :].to(tl.int64) * stride_ak
        b_place = b_columns + (start + k)[:, None].to(tl.int64) * stride_bk
        a_inside = row_inside & (k[None, :] < K - start)
        b_inside = (k[:, None] < K - start) & column_inside
        a = tl.load(a_place, mask=a_inside, other=0.0)
        b = tl.load(b_place, mask=b_inside, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    return acc
'''

_SPLIT = '''def split_in_planes(matrix):
    """Launch over blocks of rows of a matrix, shape (rows, K) or (batch, rows, K).

    {returns}
    """
    n_matrices = matrix.shape[0] if matrix.dim() == 3 else 1
    n_rows, K = matrix.shape[-2:]
    total = max(n_matrices * n_rows, 1)
    depth = max(triton.cdiv(K, 8), 1) * 8  # tensor descriptors take whole 16 bytes
    planes = matrix.new_empty({rows}, depth, dtype=torch.float16)
    scales = matrix.new_empty(2 * total)
    block_rows, block_k = (4, 1024) if matrix.stride(-1) == 1 else (32, 128)
    strides = matrix.stride(0), *matrix.stride()[-2:]
    split_in_planes_kernel[(triton.cdiv(n_rows, block_rows), n_matrices)](
        matrix, planes, scales, n_rows, K, depth, *strides, BLOCK_ROWS=block_rows, BLOCK_K=block_k
    )
    return planes, scales
'''

_RETURNS = {
    1: "Returns all rows' numbers, and all rows' scales over what their sums may lose.",
    2: """Returns all rows' high planes over all their low ones, and all rows' scales over
    what their sums may lose.""",
}

_KERNEL = '''@triton.jit
def split_in_planes_kernel(
    matrix_ptr, planes_ptr, scales_ptr, n_rows, K, depth, stride_batch, stride_row, stride_k,
    BLOCK_ROWS: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """Write float32 rows as {form}.

    Each row's own power brings its largest number to between 2**13 and 2**14, where
    float16 neither overflows nor, down to 2**-28 of that, lacks digits.
    """
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    row = row.to(tl.int64)[:, None]
    k = tl.arange(0, BLOCK_K).to(tl.int64)[None, :]
    row_inside = row < n_rows
    batch = tl.program_id(1)
    matrix_ptr += batch.to(tl.int64) * stride_batch + row * stride_row
    largest = tl.zeros((BLOCK_ROWS, BLOCK_K), tl.float32)
    for start in range(0, K, BLOCK_K):
        inside = row_inside & (k < K - start)
        x = tl.load(matrix_ptr + (start + k) * stride_k, mask=inside, other=0.0)
        largest = tl.maximum(largest, tl.abs(x))
    power = power_of(tl.max(largest, axis=1, keep_dims=True))

    total = tl.num_programs(1) * n_rows
    place = batch * n_rows + row
    lost = tl.zeros((BLOCK_ROWS, BLOCK_K), tl.float32)
    for start in range(0, depth, BLOCK_K):
        inside = row_inside & (k < K - start)
        x = tl.load(matrix_ptr + (start + k) * stride_k, mask=inside, other=0.0)
        scaled = x * two_to_the(power)
{store}        # not so infinities and NaN: no sum is found to be above a NaN
        fits = tl.abs(scaled) < 65504.0
        lost += tl.where(fits, is_faint(x, scaled).to(tl.float32), float("nan"))
{lost}    tl.store(scales_ptr + place, two_to_the(-power), mask=row_inside)
    tl.store(scales_ptr + total + place, lost, mask=row_inside)
'''

_FORM = {
    1: "float16 / 2**power: 11 bits, as many as TF32 has",
    2: "(high + low / 2**11) / 2**power: 22 bits in two float16",
}

_STORE = {
    1: """        inside = row_inside & (k < depth - start)
        tl.store(planes_ptr + place * depth + start + k, scaled.to(tl.float16), mask=inside)
""",
    2: """        high, low = two_planes(scaled)
        inside = row_inside & (k < depth - start)
        tl.store(planes_ptr + place * depth + start + k, high, mask=inside)
        tl.store(planes_ptr + (total + place) * depth + start + k, low, mask=inside)
""",
}

_LOST = {
    1: """    # each faint number is off by 2**-25 at most, and meets 2**14 at most: a sum of no
    # less than 8 times their count loses no more than 6e-5 of itself by them
    lost = tl.sum(lost, axis=1, keep_dims=True) * 8
""",
    2: """    # each faint number is off by 2**-36 at most, and meets 2**14 at most: a sum of no
    # less than their count / 16 loses no more than 4e-6 of itself by them
    lost = tl.sum(lost, axis=1, keep_dims=True) / 16
""",
}


def functions(planes: int) -> dict[str, str]:
    """Name what a file may carry whose float32 factors are split into so many planes."""
    rows = "2 * total" if planes == 2 else "total"
    kernel = _KERNEL.format(form=_FORM[planes], store=_STORE[planes], lost=_LOST[planes])
    return {
        "planes_tile": TILE[planes],
        "KEPT_PLANES": KEPT,
        "planes_of": OF,
        "power_of": POWER,
        "two_to_the": TWO_TO_THE,
        "two_planes": TWO_PLANES,
        "is_faint": FAINT,
        "add_products": ADD,
        "split_in_planes": _SPLIT.format(returns=_RETURNS[planes], rows=rows),
        "split_in_planes_kernel": kernel,
        "float32_product": EXACT,
    }
