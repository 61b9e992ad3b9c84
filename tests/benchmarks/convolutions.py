"""Convolutions on a GPU: eager, torch.compile, and every file that builtin offers, less exact ones included.

    python -m tests.benchmarks.convolutions [--only NAME ...] [--seconds 330] > convolutions.jsonl
    python -m tests.benchmarks.convolutions --dry

A JSON line a way, as tests.benchmarks.products writes them; the error is that of the first sample. For a few also other
tiles. A measurement, no test.
"""

from __future__ import annotations

from backends.compiler.schedule import EVERYTHING
from tests.benchmarks import watched
from tests.benchmarks.convolution_problems import CLOSELY, PROBLEMS, TILES, problem
from tests.benchmarks.offered import files, with_tiles, written
from tests.benchmarks.side_by_side import Problem


def made(name: str, is_tiny: bool) -> tuple[Problem, dict[str, str]]:
    """Write a problem and its files of kernels."""
    text = problem(PROBLEMS[CLOSELY.get(name, name)], is_tiny)
    if name not in CLOSELY:
        return Problem(name, text, samples=1), files(text)
    usual = written(text, EVERYTHING)
    chooser = next(chooser for chooser in TILES if f"def {chooser}(" in usual)
    return Problem(name, text, samples=1), {"as written": usual, **with_tiles(usual, chooser, TILES[chooser])}


if __name__ == "__main__":
    watched.main("tests.benchmarks.convolutions", __doc__, [*PROBLEMS, *CLOSELY], made)
