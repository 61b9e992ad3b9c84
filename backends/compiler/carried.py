"""Functions that an emitted file carries where its kernels or launchers call them: the file stands alone."""

from __future__ import annotations

import re
from collections.abc import Mapping

from backends.compiler.carried_planes import functions
from backends.compiler.carried_rows import rows

CARRIED = {
    "tanh_of": '''@triton.jit
def tanh_of(x):
    """Hyperbolic tangent.

    Near 0 the quotient would lose the digits that the odd polynomial (Cephes) keeps.
    """
    square = x * x
    small = -5.70498872745e-3 * square + 2.06390887954e-2
    small = (small * square - 5.37397155531e-2) * square + 1.33314422036e-1
    small = x + x * square * (small * square - 3.33332819422e-1)
    large = 1.0 - 2.0 / (tl.exp(2.0 * tl.abs(x)) + 1.0)
    return tl.where(tl.abs(x) < 0.625, small, tl.where(x < 0, -large, large))
''',
    "log1p_of": '''@triton.jit
def log1p_of(x):
    """log(1 + x), accurate for small x: the rounding of 1 + x cancels in the quotient (Kahan)."""
    shifted = 1.0 + x
    exact = shifted == 1.0
    quotient = tl.log(shifted) * (x / tl.where(exact, 1.0, shifted - 1.0))
    return tl.where(exact, x, tl.where(x > 1e10, tl.log(shifted), quotient))
''',
    "expm1_of": '''@triton.jit
def expm1_of(x):
    """exp(x) - 1.

    Near 0, where the difference would lose digits, its Taylor series to the ninth power.
    """
    series = x * (1 / 362880) + 1 / 40320
    series = (series * x + 1 / 5040) * x + 1 / 720
    series = ((series * x + 1 / 120) * x + 1 / 24) * x + 1 / 6
    series = (series * x + 0.5) * x * x + x
    return tl.where(tl.abs(x) < 0.5, series, tl.exp(x) - 1.0)
''',
    "product_of": '''@triton.jit
def product_of(x, y):
    """Two factors' product."""
    return x * y
''',
    "larger_of": '''@triton.jit
def larger_of(x, y):
    """The larger number; a NaN stays NaN."""
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
''',
    "smaller_of": '''@triton.jit
def smaller_of(x, y):
    """The smaller number; a NaN stays NaN."""
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)
''',
    "later_larger": '''@triton.jit
def later_larger(x, x_place, y, y_place):
    """The larger of two numbers and its place: of equal ones the later, and a NaN beats every number."""
    takes = (y >= x) | (y != y)
    return tl.where(takes, y, x), tl.where(takes, y_place, x_place)
''',
    "later_smaller": '''@triton.jit
def later_smaller(x, x_place, y, y_place):
    """The smaller of two numbers and its place: of equal ones the later, and a NaN beats every number."""
    takes = (y <= x) | (y != y)
    return tl.where(takes, y, x), tl.where(takes, y_place, x_place)
''',
    "log_of_sum": '''@triton.jit
def log_of_sum(x, y):
    """log(exp(x) + exp(y)); equal infinities have no difference."""
    high = tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
    gap = tl.where(x == y, 0.0, tl.minimum(x, y) - high)
    return high + log1p_of(tl.exp(gap))
''',
    "order_of": '''@triton.jit
def order_of(x):
    """Return integers in the order of float32 numbers: -0.0 is 0.0, and NaN the largest."""
    bits = tl.where(x == 0.0, 0.0, x).to(tl.int32, bitcast=True)
    # of negative numbers, the larger have the smaller bits
    return tl.where(x != x, 0x7FFFFFFF, bits ^ ((bits >> 31) & 0x7FFFFFFF))
''',
    "place_and_sign": '''@triton.jit
def place_and_sign(place, x):
    """Return twice the place, and one more where the float32 number there is -0.0: its order is that of 0.0."""
    return place * 2 + (x.to(tl.int32, bitcast=True) == -0x80000000).to(tl.int32)
''',
    "number_of": '''@triton.jit
def number_of(key, place):
    """Return the float32 numbers of which these are the order, the place and the sign."""
    x = (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    return tl.where(place % 2 == 1, -0.0, x)
''',
    "in_order": '''@triton.jit
def in_order(key, place, K: tl.constexpr):
    """Return a row's K smallest int32 keys in ascending order, with their places.

    Each key is sorted with its place behind it, so that of equal ones the first comes first.
    """
    both = ~tl.topk(~((key.to(tl.int64) << 32) | place), K)
    return (both >> 32).to(tl.int32), both.to(tl.int32)
''',
    "expect_shape": '''def expect_shape(tensor, shape):
    """Refuse a tensor that a kernel would read at the wrong places."""
    found, wanted = tuple(tensor.shape), tuple(shape)
    if found != wanted:
        raise ValueError(f"this kernel takes a tensor of shape {wanted} here, not {found}")
''',
    "expect_length": '''def expect_length(found, wanted):
    """Refuse lengths that do not fit together: a kernel would read places that are not there."""
    if found != wanted:
        raise ValueError(f"lengths {found} and {wanted} do not fit together")
''',
    "expect_pieces": '''def expect_pieces(found, wanted):
    """Refuse a tensor that would come apart into another number of pieces."""
    if found != wanted:
        raise ValueError(f"written for {wanted} pieces of a tensor, not {found}")
''',
    "times_zero": '''@triton.jit
def times_zero(
    places, inside, k, first, last, K, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr,
):
    """Sum 0 times numbers: 0, or NaN where one is not finite."""
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(first, last, STEP):
        x = tl.load(places + (start + k).to(tl.int64) * stride, mask=inside & (k < K - start), other=0.0)
        total += x * 0.0
    return total
''',
    "gemm_tile": '''def gemm_tile(M, N):
    """Choose (BLOCK_M, BLOCK_N, BLOCK_K, warps): large tiles where enough of them fill a GPU."""
    if M >= 1024 and N >= 1024:
        return 128, 128, 32, 8
    if M <= 32:
        return 16, 64, 64, 4
    return 64, 64, 32, 4
''',
    "attention_tile": '''def attention_tile(n_rows, depth, v_depth, itemsize):
    """Choose (BLOCK_M, BLOCK_N, BLOCK_D, BLOCK_V, warps): a program's factors and sums stay in registers."""
    block_d, block_v = (max(triton.next_power_of_2(width), 16) for width in (depth, v_depth))
    block_m = min(max(triton.next_power_of_2(n_rows), 16), 64)
    is_wide = max(block_d, block_v) > 64
    block_n = 64 if itemsize == 2 and not is_wide else 16 if itemsize == 4 and is_wide else 32
    return block_m, block_n, block_d, block_v, 8 if itemsize == 2 and is_wide else 4
''',
    "unit_rows": '''def unit_rows(matrix):
    """Lay a matrix out so that the numbers of a row are neighbours, as they mostly are already."""
    return matrix if matrix.stride(-1) == 1 else matrix.contiguous()
''',
    "conv_tile": '''def conv_tile(points, channels, K):
    """Choose (BLOCK_P, BLOCK_OC, BLOCK_K, warps): the most that fits into registers without spilling.

    Few points are few programs: there the number of steps is what takes time, so each is longer.
    """
    if points >= 2**31 - 128:
        raise ValueError("more output places than 32 bits can count")
    block_oc = min(max(triton.next_power_of_2(channels), 16), 128)
    block_k = 16 if K <= 16 else 64 if points <= 4096 and K >= 128 and block_oc < 128 else 32
    if block_oc == 128:
        return 64, 128, block_k, 8
    return 128, block_oc, block_k, 8
''',
    "taps_of_phase": '''@triton.jit
def taps_of_phase(phase, K: tl.constexpr, stride: tl.constexpr, dilation: tl.constexpr, step: tl.constexpr):
    """Return the first tap of a phase and how many there are, every step-th one.

    A tap belongs to the phase where phase - tap * dilation is a multiple of the stride.
    """
    first = K
    for tap in tl.static_range(step - 1, -1, -1):
        first = tl.where((phase - tap * dilation) % stride == 0, tap, first)
    return first, tl.cdiv(K - first, step)
''',
    "depthwise_tile": '''def depthwise_tile(n_lanes, rows, taps):
    """Choose (ROWS, BLOCK_W): more rows a program read less twice, more taps leave fewer registers."""
    if n_lanes >= 2**31 - 512:
        raise ValueError("more lanes than 32 bits can count")
    return min(triton.next_power_of_2(rows), 8 if taps <= 16 else 4 if taps <= 64 else 1), 512
''',
    "along_k": '''def along_k(matrix):
    """Lay a float32 [..., rows, k] matrix out as the tensor cores want it.

    That is with k contiguous, in rows of whole 64 bytes, as most are already. Where not, a copy
    costs far less than the slow path; the zeros added change no sum.
    """
    k = matrix.shape[-1]
    if k % 16 == 0 or k < 256:
        return matrix if matrix.stride(-1) == 1 else matrix.contiguous()
    padded = matrix.new_zeros(*matrix.shape[:-1], triton.cdiv(k, 16) * 16)
    padded[..., :k] = matrix
    return padded
''',
    **functions(2),
    **rows(2),
}


def carried(text: str, instead: Mapping[str, str]) -> list[str]:
    """Return the functions that a text calls or passes on, and those that they call; `instead` has other forms."""
    known_ones = {**CARRIED, **instead}
    found: dict[str, str] = {}
    while True:
        named = set(re.findall(r"\w+", " ".join([text, *found.values()])))
        new = {name: function for name, function in known_ones.items() if name in named - found.keys()}
        if not new:
            return [function for name, function in known_ones.items() if name in found]
        found |= new
