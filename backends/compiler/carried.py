"""Functions that an emitted file carries where its kernels or launchers call them: the file stands alone."""

from __future__ import annotations

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
    "expect_shape": '''def expect_shape(tensor, shape):
    """Refuse a tensor that a kernel would read at the wrong places."""
    found, wanted = tuple(tensor.shape), tuple(shape)
    if found != wanted:
        raise ValueError(f"this kernel takes a tensor of shape {wanted} here, not {found}")
''',
    "gemm_tile": '''def gemm_tile(M, N):
    """Choose (BLOCK_M, BLOCK_N, BLOCK_K, warps): large tiles where enough of them fill a GPU."""
    if M >= 1024 and N >= 1024:
        return 128, 128, 32, 8
    if M <= 32:
        return 16, 64, 64, 4
    return 64, 64, 32, 4
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
}


def carried(text: str) -> list[str]:
    """Return the functions that a text calls."""
    return [function for name, function in CARRIED.items() if f"{name}(" in text]
