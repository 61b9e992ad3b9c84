"""How long people wait for text: from a paste to the last line of builtin's file, warm, over folders of problems.

`python -m tests.benchmarks.writing KernelBench/level1 KernelBench/level2 [--every 10]` prints the median and the worst
of each folder, and what has no file. The process that children are forked from has had time, as at a prompt.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

from backends import Backend, NothingToConvert, Request
from repl.arguments import parse
from repl.parts import opened
from verifier.problem import Problem


def main() -> None:
    """Print a line for every folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=1, help="take one problem of so many")
    parser.add_argument("--idle", type=float, default=10.0, help="seconds at the prompt before the first paste")
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print("                 files   median     worst   seconds from the paste to the last line")
    with opened(parse([])) as (backend, _):
        time.sleep(chosen.idle)
        for folder in chosen.folders:
            rows = {path.stem: _seconds(backend, path) for path in sorted(folder.glob("*.py"))[:: chosen.every]}
            written = {name: seconds for name, seconds in rows.items() if seconds is not None}
            worst = max(written, key=lambda name: written[name])
            median = statistics.median(written.values())
            print(f"{folder.name:16} {len(written):5} {median:8.2f}  {written[worst]:8.2f}   {worst}")
            for name in rows.keys() - written.keys():
                print(f"    no file: {name}")
            print(f"    load {os.getloadavg()[0]:.1f}", flush=True)


def _seconds(backend: Backend, path: Path) -> float | None:
    """Time one paste; None where there is no file for it."""
    began = time.monotonic()
    problem = Problem.parse(path.read_text(encoding="utf-8"))
    try:
        for _ in backend.write(Request(problem.source, problem.entry)):
            pass
    except NothingToConvert:
        return None
    return time.monotonic() - began


if __name__ == "__main__":
    main()
