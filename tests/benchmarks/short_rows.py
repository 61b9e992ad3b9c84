"""Short rows on a GPU: eager, torch.compile, builtin's kernels, and the same with other tiles and numbers of warps.

    python -m tests.benchmarks.short_rows [--only NAME ...] [--seconds 330] > short_rows.jsonl
    python -m tests.benchmarks.short_rows --dry

A JSON line a way, as tests.benchmarks.products writes them. "4096 / 8" gives a program of 8 warps as many whole rows
(or columns) as 4096 elements hold, and "a row, a vector" one row, without the second dimension. Two problems have long
rows, which the same form of kernel computes one a program. A measurement, no test.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from backends.compiler.frame import TILE, Frame
from backends.compiler.rowframes import one_row
from backends.compiler.schedule import Schedule
from tests.backends.compiler.written import source
from tests.benchmarks import watched
from tests.benchmarks.offered import written
from tests.benchmarks.side_by_side import Problem

TILES = ((512, 1), (1024, 1), (1024, 2), (1024, 4), (2048, 2), (2048, 4), (2048, 8), (4096, 4), (4096, 8), (8192, 8))
"""Elements that a program holds, and its warps."""


@dataclass(frozen=True)
class Rows:
    """A forward over x0, x1, ... of these shapes, and what its constructor does."""

    forward: str
    shapes: tuple[tuple[int, ...], ...]
    init: str = ""


PROBLEMS = {
    "softmax of attention over 197": Rows("torch.softmax(x0, -1)", ((64, 12, 197, 197),)),
    "LayerNorm of 768": Rows("self.norm(x0)", ((1568, 32, 768),), "self.norm = nn.LayerNorm(768)"),
    "masked softmax of windows over 49": Rows(
        "torch.softmax(x0 + x1 + x2, -1)", ((128, 64, 3, 49, 49), (3, 49, 49), (64, 1, 49, 49))
    ),
    "RMS norm of heads of 128": Rows(
        "x0 * torch.rsqrt((x0 * x0).mean(-1, keepdim=True) + 1e-6) * x1", ((4, 4096, 32, 128), (128,))
    ),
    "cross-entropy of 1000 classes": Rows(
        "F.cross_entropy(x0, self.classes[: len(x0)], reduction='none')",
        ((65536, 1000),),
        "self.register_buffer('classes', torch.randint(1000, (65536,)))",
    ),
    "sum of 32": Rows("x0.sum(-1)", ((2**21, 32),)),
    "log-softmax of 10": Rows("F.log_softmax(x0, -1)", ((2**22, 10),)),
    "residual and LayerNorm of 512": Rows(
        "self.norm(x0 + x1)", ((1024, 32, 512), (1024, 32, 512)), "self.norm = nn.LayerNorm(512)"
    ),
    "GroupNorm of 8 x 7 x 7": Rows("self.norm(x0)", ((256, 256, 49),), "self.norm = nn.GroupNorm(32, 256)"),
    "softmax across 17 rows of 3": Rows("torch.softmax(x0, 1)", ((2**19, 17, 3),)),
    "softmax of long rows, 4096": Rows("torch.softmax(x0, -1)", ((16384, 4096),)),
    "softmax of long rows, 4093": Rows("torch.softmax(x0, -1)", ((16384, 4093),)),
}


def made(name: str, is_tiny: bool) -> tuple[Problem, dict[str, str]]:
    """Write a problem and its files of kernels."""
    rows = PROBLEMS[name]
    shapes = [_tiny(shape) for shape in rows.shapes] if is_tiny else rows.shapes
    text = source(f"return {rows.forward}", *shapes, init=rows.init).replace("torch.rand(", "torch.randn(")
    usual = written(text, Schedule())
    others = {f"{tile} / {warps}": written(text, _with_tile(tile, warps)) for tile, warps in TILES}
    others["a row, a vector"] = written(text, Schedule(adapt=_a_row))
    return Problem(name, text), {"usual": usual, **{way: file for way, file in others.items() if file != usual}}


def _tiny(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Leave two of what lies before the last two dimensions, and of two rows."""
    before = max(len(shape) - 2, int(len(shape) == 2))
    return (*(min(length, 2) for length in shape[:before]), *shape[before:])


def _with_tile(elements: int, warps: int) -> Schedule:
    """Give the programs that hold whole rows or columns so many elements and warps."""

    def sized(frame: Frame) -> Frame:
        blocks = tuple(line.replace(str(TILE), str(elements)) for line in frame.blocks)
        return replace(frame, blocks=blocks, warps=str(warps)) if "whole" in frame.summary else frame

    return Schedule(adapt=sized)


def _a_row(frame: Frame) -> Frame:
    """Give a program one row, as a vector."""
    return one_row(frame.layout, 1, is_streamed=False) if "whole rows" in frame.summary else frame


if __name__ == "__main__":
    watched.main("tests.benchmarks.short_rows", __doc__, list(PROBLEMS), made)
