"""How long people wait for text: from a paste to the last line of builtin's file, warm, over folders of problems.

`python -m tests.benchmarks.writing KernelBench/level1 KernelBench/level2 [--every 10] [--texts FOLDER]` prints the
median, the worst and the five slowest of each folder with their phases, and what has no file. The process that
children are forked from has had time, as at a prompt. With `--texts` the files are kept, to compare two versions by.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from repl.arguments import parse
from repl.parts import opened
from verifier.desk import Verifier
from verifier.problem import Problem

SLOWEST = 5


@dataclass(frozen=True)
class Row:
    """What became of one paste: how long it took, the file or why there is none, and the seconds of each phase.

    `processor` are the seconds of a processor that it took: all there is to compare by on a machine with other work.
    """

    seconds: float
    processor: float
    text: str
    fault: str
    phases: dict[str, float]


def main() -> None:
    """Print a few lines for every folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=1, help="take one problem of so many")
    parser.add_argument("--only", default="", help="take those whose name holds this")
    parser.add_argument("--idle", type=float, default=10.0, help="seconds at the prompt before the first paste")
    parser.add_argument("--texts", type=Path, help="a folder to write the files to")
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with opened(parse([])) as (_, judge):
        time.sleep(chosen.idle)
        for folder in chosen.folders:
            paths = [path for path in sorted(folder.glob("*.py")) if chosen.only in path.stem][:: chosen.every]
            rows = {path.stem: _row(judge, path) for path in paths}
            _report(folder.name, rows)
            for name, row in rows.items() if chosen.texts else ():
                kept = chosen.texts / folder.name / f"{name}.py"
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(row.text or f"# {row.fault}\n", encoding="utf-8")


def _row(judge: Verifier, path: Path) -> Row:
    """Have one paste written, as `builtin` does it."""
    began = time.monotonic()
    problem = Problem.parse(path.read_text(encoding="utf-8"))
    child = judge.spawn("tests.benchmarks.phases:timed")
    request = {"source": problem.source, "entry": problem.entry, "candidate": 0, "precision": "exact"}
    text, fault, seconds = "", "", 0.0
    try:
        child.send(request)
        while (message := child.receive()) is not None and "phases" not in message:
            seconds = time.monotonic() - began
            text += message.get("code", "")
            fault = message.get("error", {}).get("message", fault)
    finally:
        child.close()
    told = message or {"phases": {}, "processor": 0.0}
    return Row(seconds, told["processor"], text, fault, told["phases"])


def _report(folder: str, rows: dict[str, Row]) -> None:
    written = {name: row for name, row in rows.items() if not row.fault}
    if written:
        waited = [row.seconds for row in written.values()]
        used = [row.processor for row in written.values()]
        print(f"{folder}: {len(written)} files, from the paste to the last line")
        print(f"    median {statistics.median(waited):.2f} s, worst {max(waited):.2f} s")
        print(f"    of a processor's time {statistics.median(used):.2f} s and {max(used):.2f} s")
    for name in sorted(written, key=lambda name: -written[name].seconds)[:SLOWEST]:
        phases = ", ".join(f"{phase} {taken:.2f}" for phase, taken in written[name].phases.items() if taken >= 0.01)
        print(f"    {written[name].seconds:6.2f}  {name}: {phases}; processor {written[name].processor:.2f}")
    for name in rows.keys() - written.keys():
        print(f"    no file: {name}: {rows[name].fault}")
    print(f"    load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
