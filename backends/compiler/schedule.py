"""Schedules: the same program laid over the device in other ways, for whoever can measure to choose from.

A schedule changes where work runs and how much of it a program takes, never what is computed; how exactly, only where
that is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from backends.compiler.carried_planes import functions
from backends.compiler.carried_rows import rows
from backends.compiler.frame import Frame


@dataclass(frozen=True)
class Schedule:
    """One way to write a program. `name` says in words how it differs from the usual way, "" for that way itself."""

    name: str = ""
    library: tuple[str, ...] = ()  # families of rules whose operators are left to PyTorch's libraries
    everything: bool = False  # also what a library is known to do faster
    planes: int = 2  # float16 planes that stand for a float32 in large products: 2 as exact, 1 as TF32; 0: none
    copies: bool = True  # a product's [K, N] factor is laid out along K first where tensor cores read it so faster
    adapt: Callable[[Frame], Frame] = lambda frame: frame
    carried: Mapping[str, str] = field(default_factory=dict)  # functions that the file carries in another form

    @property
    def reason(self) -> str:
        """Why an operator stays in PyTorch that could be written."""
        return "left to the library in this candidate"


def _scaled(frame: Frame, factor: float) -> Frame:
    """Give every program more or fewer elements, and warps with them; a row stays one program's, on other warps."""

    def sized(text: str) -> str:
        return re.sub(r"\b(1024|2048|4096|8192)\b", lambda number: str(int(int(number[0]) * factor)), text)

    return replace(
        frame,
        constexprs={name: sized(value) for name, value in frame.constexprs.items()},
        grid=sized(frame.grid),
        blocks=tuple(sized(line) for line in frame.blocks),
        warps=_more_warps(frame.warps, factor),
    )


def _more_warps(warps: str, factor: float) -> str:
    """Scale a number of warps, or the usual expression for a row's: between bounds, by its length."""
    if warps.isdigit():
        return str(max(int(int(warps) * factor), 1))
    row = re.fullmatch(r"min\(max\(block // (\d+), (\d+)\), (\d+)\)", warps)
    if row is None:
        return warps
    share, least, most = map(int, row.groups())
    return f"min(max(block // {int(share / factor)}, {int(least * factor)}), {min(int(most * factor), 32)})"


_LARGE_TILES = '''def gemm_tile(M, N):
    """Choose (BLOCK_M, BLOCK_N, BLOCK_K, warps): large tiles, for more reuse of what is read."""
    if M >= 1024 and N >= 1024:
        return 128, 128, 64, 8
    if M <= 32:
        return 16, 128, 64, 4
    return 128, 64, 32, 4
'''

_SMALL_TILES = '''def gemm_tile(M, N):
    """Choose (BLOCK_M, BLOCK_N, BLOCK_K, warps): small tiles, so that there are enough of them to fill a GPU."""
    if M <= 32:
        return 16, 32, 128, 4
    return 64, 64, 32, 4
'''

EVERYTHING = Schedule("all that can be in Triton, also what the library does faster", everything=True)

WITHOUT_PLANES = Schedule("large float32 products from TF32 parts, not from float16 planes", planes=0)
"""Three TF32 products where planes take three of float16: as exact, and half as fast on an H200 (1.2 and 2.4 times
cuBLAS's speed over 22 shapes)."""

FAST = Schedule(
    "large float32 products and convolutions of numbers rounded to float16, scaled: as exact as TF32, less exact than "
    "PyTorch",
    planes=1,
    carried={**functions(1), **rows(1)},
)
"""Only where less exact float32 is accepted. Convolutions by TF32 took 1.3 to 2 times as long on an H200, and their
errors were the same."""

WHERE_THEY_LIE = Schedule("factors of float32 products are read where they lie, not copied first", copies=False)
"""Tensor cores read a factor that is not along k more slowly; in a batch each copy serves few rows."""

SCHEDULES = (
    Schedule(),
    EVERYTHING,
    WITHOUT_PLANES,
    Schedule("matrix products and convolutions by the library", library=("matmul", "einsum", "convolution")),
    WHERE_THEY_LIE,
    Schedule("more work a program", adapt=lambda frame: _scaled(frame, 2), carried={"gemm_tile": _LARGE_TILES}),
    Schedule("less work a program", adapt=lambda frame: _scaled(frame, 0.5), carried={"gemm_tile": _SMALL_TILES}),
)


def offered(precision: str) -> tuple[Schedule, ...]:
    """Return the schedules to choose from, the first to try first; "fast" allows what is as inexact as TF32."""
    return (FAST, *SCHEDULES) if precision == "fast" else SCHEDULES
