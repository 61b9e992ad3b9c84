"""float32 products on a GPU: eager, torch.compile, and every file that builtin offers, less exact ones included.

    python -m tests.benchmarks.products [--only NAME ...] [--seconds 330] > products.jsonl
    python -m tests.benchmarks.products --dry

A JSON line a way: the median in ms with its quartiles (cold L2 cache, all ways taken in turns), the speed beside eager
with its 95 % interval, the error against float64, and how long the first call took. Products from planes are written
also where builtin would not: from which size on they pay is to be seen. For a few also every other tile, and the kernel
written in other ways. At the end each way's geometric mean. A measurement, no test.
"""

from __future__ import annotations

from dataclasses import replace

from backends.compiler import planes
from backends.compiler.schedule import WHERE_THEY_LIE, WITHOUT_PLANES, Schedule
from tests.benchmarks import watched
from tests.benchmarks.offered import files, written
from tests.benchmarks.product_problems import CLOSELY, PROBLEMS, SPOILED, problem, spoiled
from tests.benchmarks.product_variants import tiled, variants
from tests.benchmarks.side_by_side import Problem


def made(name: str, is_tiny: bool) -> tuple[Problem, dict[str, str]]:
    """Write a problem and its files of kernels."""
    planes.is_worth = lambda group: True
    if name in CLOSELY:
        text = problem(PROBLEMS[CLOSELY[name]], is_tiny)
        two = written(text, Schedule())
        lying = replace(WHERE_THEY_LIE, planes=0)
        without = {"no planes": written(text, WITHOUT_PLANES), "where they lie": written(text, lying)}
        return Problem(name, text), {"planes": two, **variants(two), **tiled(without)}
    if name in SPOILED:
        text = spoiled(problem(PROBLEMS["4096"], is_tiny), SPOILED[name])
        return Problem(name, text), {"usual": written(text, Schedule())}
    text = problem(PROBLEMS[name], is_tiny)
    return Problem(name, text), files(text)


if __name__ == "__main__":
    watched.main("tests.benchmarks.products", __doc__, [*PROBLEMS, *SPOILED, *CLOSELY], made)
