"""The trivial kernel of the warm-up; a module of its own, because Triton is imported with it."""

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def nothing(x_ptr, value, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Add to a vector."""
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0) + value, mask=at < n)
