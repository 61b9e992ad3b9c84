"""Other ways to write and to tile the kernel of planes, to be measured beside the one that is emitted."""

from __future__ import annotations

from tests.benchmarks.offered import with_tiles

TILES = [
    (128, 128, 64, 8, 2),
    (128, 128, 32, 8, 4),
    (128, 128, 64, 4, 3),
    (128, 256, 32, 8, 3),
    (128, 256, 64, 8, 2),
    (256, 128, 32, 8, 3),
    (64, 128, 64, 4, 3),
    (128, 64, 64, 4, 3),
    (64, 256, 64, 8, 2),
    (64, 64, 64, 4, 3),
]
"""(BLOCK_M, BLOCK_N, BLOCK_K, warps, stages) in place of what planes_tile chooses."""

USUAL_TILES = [(128, 128, 32, 8), (128, 64, 32, 4), (64, 128, 32, 4), (64, 64, 32, 4), (128, 128, 64, 8)]
"""(BLOCK_M, BLOCK_N, BLOCK_K, warps) in place of what gemm_tile chooses for the kernels without planes."""

_LOOP = """
    block = tl.dot(a_high, b_high, max_num_imprecise_acc=BLOCK_K)
    low = tl.dot(a_high, b_low, low)
    low = tl.dot(a_low, b_high, low)
    return acc + block, low
"""

VARIANTS = {
    "one sum a block": (
        _LOOP,
        """
    block = tl.dot(a_high, b_low)
    block = tl.dot(a_low, b_high, block)
    return acc + tl.dot(a_high, b_high, block / 2048), low
""",
    ),
    "low first": (
        _LOOP,
        """
    low = tl.dot(a_high, b_low, low)
    low = tl.dot(a_low, b_high, low)
    return acc + tl.dot(a_high, b_high, max_num_imprecise_acc=BLOCK_K), low
""",
    ),
    "no sums of their own": (
        _LOOP,
        """
    low = tl.dot(a_high, b_low, low)
    low = tl.dot(a_low, b_high, low)
    return tl.dot(a_high, b_high, acc), low
""",
    ),
    "without the guard": ("if tl.min(is_exact.to(tl.int32)) == 0:", "if K < 0:"),
}
"""What is measured → a part of the emitted text, and what it is replaced by."""


def tiled(files: dict[str, str]) -> dict[str, str]:
    """Give each file of kernels without planes other tiles."""
    return {
        f"{way}: {tile}": other
        for way, file in files.items()
        for tile, other in with_tiles(file, "gemm_tile", USUAL_TILES).items()
    }


def variants(file: str) -> dict[str, str]:
    """Write the kernel of two planes in other ways, and with other tiles; raise ValueError if its text has changed."""
    found = {}
    for name, (old, new) in VARIANTS.items():
        if file.count(old) != 1:
            raise ValueError(f"the kernel's text has changed: {old!r}")
        found[name] = file.replace(old, new)
    return {**found, **with_tiles(file, "planes_tile", TILES)}
