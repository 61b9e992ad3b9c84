"""What a file carries whose convolutions are of shifted rows: tensors laid out channels last, in planes, with zeros."""

from __future__ import annotations

LARGEST = '''@triton.jit
def largest_kernel(x_ptr, range_ptr, n_elements, BLOCK: tl.constexpr):
    """Find the largest number of each part of x."""
    n_blocks = tl.cdiv(n_elements, BLOCK)
    part = (tl.program_id(0) // n_blocks).to(tl.int64)
    place = (tl.program_id(0) % n_blocks).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + part * n_elements + place, mask=place < n_elements, other=0.0)
    tl.atomic_max(range_ptr + part, tl.max(tl.abs(x), axis=0))
'''

STORES = {
    1: """    tl.store(rows_ptr + place, scaled.to(tl.float16), mask=fits)
""",
    2: """    high, low = two_planes(scaled)
    tl.store(rows_ptr + place, high, mask=fits)
    tl.store(rows_ptr + n_values + place, low, mask=fits)
""",
}

KINDS = {1: "rounded to float16", 2: "in two float16 planes"}


def _kernel(planes: int) -> str:
    return f'''@triton.jit
def shifted_rows_kernel(
    x_ptr, rows_ptr, range_ptr, N, C, D, H, W, GD, GH, GW, CG, n_groups, n_values, n_parts, CP: tl.constexpr,
    padding_d: tl.constexpr, padding_h: tl.constexpr, padding_w: tl.constexpr, stride_d: tl.constexpr,
    stride_h: tl.constexpr, BLOCK_W: tl.constexpr, BLOCK_C: tl.constexpr,
):
    """Write a line of x channels last, {KINDS[planes]}, with the zeros around it.

    The lines that a stride reaches from one tap lie together: those are its phases.
    """
    n_blocks = tl.cdiv(GW, BLOCK_W)
    line = (tl.program_id(0) // n_blocks).to(tl.int64)
    w = tl.program_id(0) % n_blocks * BLOCK_W + tl.arange(0, BLOCK_W)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    n = line // GH // GD % N
    phase = line // GH // GD // N
    d = line // GH % GD * stride_d + phase // stride_h - padding_d
    h = line % GH * stride_h + phase % stride_h - padding_h
    i = w - padding_w
    fits = (w < GW) & (c < n_groups * CP)
    exists = (c < n_groups * CP) & (c % CP < CG)
    inside = exists & (d >= 0) & (d < D) & (h >= 0) & (h < H) & (i >= 0) & (i < W)
    channel = n * C + c // CP * CG + c % CP
    x = tl.load(x_ptr + ((channel * D + d) * H + h) * W + i, mask=inside, other=0.0)
    part = tl.minimum(n, n_parts - 1)
    scaled = x * two_to_the(power_of(tl.load(range_ptr + part)))
    place = (line * GW + w) * n_groups * CP + c
{STORES[planes]}    n_faint = tl.sum(tl.sum(is_faint(x, scaled).to(tl.float32), axis=1), axis=0)
    tl.atomic_add(range_ptr + n_parts + part, n_faint, mask=n_faint > 0)
'''


def _host(planes: int) -> str:
    count = "2 * n_values" if planes == 2 else "n_values"
    beside = "all high planes before all low ones" if planes == 2 else "the rows"
    return f'''def shifted_rows(x, n_parts, grid, channels, groups=1, padding=(0, 0, 0), stride=(1, 1)):
    """Lay x, shape (N, C, D, H, W) or fewer dimensions, out on a grid of places.

    At each place lie all channels, padded by group.

    Returns {beside}, and of all parts of x (the
    whole, or each sample) the largest number over how many are too faint for float16.
    """
    x = x.contiguous()
    N, C, D, H, W = *x.shape[:2], *[1] * (5 - x.dim()), *x.shape[2:]
    GD, GH, GW = grid
    x_range = x.new_zeros(2 * n_parts)
    n_elements = x.numel() // n_parts
    blocks = n_parts * triton.cdiv(n_elements, 8192)
    largest_kernel[(blocks,)](x, x_range, n_elements, BLOCK=8192, num_warps=8)
    lines = stride[0] * stride[1] * N * GD * GH
    n_values = lines * GW * groups * channels
    rows = x.new_empty({count}, dtype=torch.float16)
    block_w = min(max(triton.next_power_of_2(GW), 16), 128)
    block_c = min(triton.next_power_of_2(groups * channels), 64)
    blocks = (lines * triton.cdiv(GW, block_w), triton.cdiv(groups * channels, block_c))
    shifted_rows_kernel[blocks](
        x, rows, x_range, N, C, D, H, W, *grid, C // groups, groups, n_values, n_parts, channels, *padding, *stride,
        BLOCK_W=block_w, BLOCK_C=block_c, num_warps=8,
    )
    return rows, x_range
'''


FLIPPED = '''def flipped_rows(weight, grid, channels, groups):
    """Lay a transposed convolution's weight, (IC, OC of a group, taps), out by output channel.

    The last taps of a line come first: a place reads its inputs in that order.
    """
    by_output = weight.unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)
    return shifted_rows(by_output.flip(-1), by_output.shape[0], grid, channels)
'''

BOXES = '''def row_boxes(rows, pitch, width, box):
    """Describe rows to the GPU, which copies boxes of them.

    One begins every `pitch` numbers, so they may overlap.
    """
    count = max((rows.numel() - width) // pitch + 1, 1)
    if count >= 2**31:
        raise ValueError("more rows than 32 bits can count")
    return TensorDescriptor(rows, [count, width], [pitch, 1], list(box))
'''

LAYOUT = '''def row_layout(channels, KW, may_join, most):
    """Choose (padded channels, taps of a line, numbers a tap, places a line, BLOCK_C).

    Where channels fill no block, a line's taps are one: its places lie together, and
    the rows overlap.
    """
    block_c = min(64 if channels > 32 else 32 if channels > 16 else 16, most)
    if channels % block_c and may_join:
        padded = triton.cdiv(channels, 8) * 8  # tensor descriptors take whole 16 bytes
        block_c = min(max(triton.next_power_of_2(KW * padded), 16), most)
        whole = block_c // math.gcd(block_c, padded)
        return padded, 1, KW * padded, triton.cdiv(KW, whole) * whole, block_c
    padded = triton.cdiv(channels, block_c) * block_c
    return padded, KW, padded, KW, block_c
'''

TILE = {
    1: '''def shifted_tile(channels, places):
    """Choose (BLOCK_P, BLOCK_OC, most of BLOCK_C, warps, stages) for a number of places."""
    block_oc = min(max(triton.next_power_of_2(channels), 16), 128)
    if block_oc == 128:
        return min(places, 128), 128, 64, 8, 3
    return min(places, 128 if block_oc == 64 else 256), block_oc, 32, 4, 3
''',
    2: '''def shifted_tile(channels, places):
    """Choose (BLOCK_P, BLOCK_OC, most of BLOCK_C, warps, stages) for a number of places.

    Two sums of a tile, and a block's own, stay in registers.
    """
    block_oc = min(max(triton.next_power_of_2(channels), 16), 128)
    if block_oc == 128:
        return min(places, 128), 128, 64, 8, 3
    return min(places, 128), block_oc, 32, 4, 3
''',
}


def rows(planes: int) -> dict[str, str]:
    """Name what a file carries for shifted rows of so many float16 planes."""
    return {
        "row_layout": LAYOUT,
        "shifted_tile": TILE[planes],
        "row_boxes": BOXES,
        "flipped_rows": FLIPPED,
        "shifted_rows": _host(planes),
        "largest_kernel": LARGEST,
        "shifted_rows_kernel": _kernel(planes),
    }
