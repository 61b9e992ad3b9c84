"""Many problems, one after the other, in a child that is watched: what crashes or hangs costs one problem alone.

First children side by side call everything once, for what compilers keep on the disk; then one child measures.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

PATIENCE = 120.0
"""Seconds without a line after which a child counts as hung: the first problem starts CUDA and torch.compile."""
WARM_SHARE = 0.4
"""Part of the time that calling everything once may take."""
ROUNDS_S = 1.0
"""Seconds in which a problem's ways are called in turns, at least seven times each."""

Make = Callable[[str, bool], tuple[Any, Mapping[str, str]]]
"""A problem's name, and whether it is wanted tiny → the Problem and its files of kernels."""


def main(module: str, doc: str | None, names: Sequence[str], make: Make) -> None:
    """Measure the problems that the arguments select, each one's lines as soon as they are known."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(names), metavar="NAME", help=", ".join(names))
    parser.add_argument("--seconds", type=float, default=330.0, help="after which no other problem is begun")
    parser.add_argument("--warm", type=int, default=6, help="children that call everything once before (0: none)")
    parser.add_argument("--dry", action="store_true", help="tiny sizes on the CPU, to see that everything runs")
    parser.add_argument("--child", choices=("warm", "measure"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        _child(chosen, make)
        return
    began = time.monotonic()
    options = ["--dry"] if chosen.dry else []
    if chosen.warm and len(chosen.only) > 1:
        _warm(module, chosen.only, chosen.warm, options, WARM_SHARE * chosen.seconds)
    lines = list(_measured(module, chosen.only, options, began + chosen.seconds))
    print(json.dumps({"summary": True, "geomean": _means(lines), "seconds": round(time.monotonic() - began)}))


def _warm(module: str, names: Sequence[str], workers: int, options: list[str], seconds: float) -> None:
    """Call everything once in several children; what goes wrong there is seen again, and said, when it is measured."""
    shares = [names[number::workers] for number in range(workers)]
    children = [_start(module, "warm", share, options, subprocess.DEVNULL) for share in shares if share]
    end = time.monotonic() + seconds
    for child in children:
        try:
            child.wait(max(end - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _measured(module: str, names: Sequence[str], options: list[str], end: float) -> Iterator[dict[str, Any]]:
    """Print and yield the lines of one child after another, until each problem had its turn or the time is over."""
    left = list(names)
    while left and time.monotonic() < end:
        for line in _lines(_start(module, "measure", left, options, subprocess.PIPE), end):
            if "done" in line:
                left.remove(line["done"])
                continue
            print(json.dumps(line), flush=True)
            yield line
        if left and time.monotonic() < end:
            lost = left.pop(0)
            print(json.dumps({"problem": lost, "fault": "its process ended, or hung and was ended"}), flush=True)
    for name in left:
        print(json.dumps({"problem": name, "skipped": "the time was over"}), flush=True)


def _lines(child: subprocess.Popen[str], end: float) -> Iterator[dict[str, Any]]:
    """Yield what a child says until it ends; end it where it says nothing for too long, or at the end of the time."""
    assert child.stdout is not None
    with child:
        while True:
            patience = min(PATIENCE, max(end - time.monotonic(), 1.0))
            watch = threading.Timer(patience, child.kill)
            watch.start()
            text = child.stdout.readline()
            watch.cancel()
            if not text:
                return
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                print(text.rstrip(), file=sys.stderr, flush=True)  # a library's own words
                continue
            yield line


def _start(module: str, what: str, names: Sequence[str], options: list[str], stdout: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    environment |= {"TRITON_INTERPRET": "1"} if "--dry" in options else {}
    command = [sys.executable, "-m", module, "--child", what, *options, "--only", *names]
    stderr = subprocess.DEVNULL if what == "warm" else None
    return subprocess.Popen(command, stdout=stdout, stderr=stderr, text=True, env=environment)


def _child(chosen: argparse.Namespace, make: Make) -> None:
    """Call one problem after another in all ways, and measure where that is the task."""
    import torch
    import triton

    from tests.benchmarks.side_by_side import Ways

    logging.disable(logging.WARNING)  # of torch.export, for every file
    device = "cpu" if chosen.dry else "cuda"
    if chosen.dry:
        from tests.backends.compiler.sweep import repair_interpreter

        repair_interpreter()
    _say(
        device="cpu" if chosen.dry else torch.cuda.get_device_name(),
        torch=torch.__version__,
        triton=triton.__version__,
        tf32_in_convolutions=torch.backends.cudnn.allow_tf32,
        matmul_precision=torch.get_float32_matmul_precision(),
    )
    for name in chosen.only:
        try:
            problem, files = make(name, chosen.dry)
            ways = Ways(problem, files, device)
            if chosen.child == "measure":
                for line in ways.measure(0.0 if chosen.dry else ROUNDS_S):
                    _say(**line)
            del ways
            if not chosen.dry:
                torch.cuda.empty_cache()
                torch.cuda.synchronize()
        except Exception as fault:
            _say(problem=name, fault=f"{type(fault).__name__}: {' '.join(str(fault).split())[:300]}")
            if "CUDA error" in str(fault):
                raise SystemExit(1) from fault  # the context is lost: the rest goes on in another process
        torch.compiler.reset()
        _say(done=name)


def _say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def _means(lines: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return each way's geometric mean of the speed beside eager, and of how many problems it is."""
    found: dict[str, list[float]] = {}
    for line in lines:
        if "speedup" in line:
            found.setdefault(line["way"], []).append(math.log(line["speedup"]))
    return {way: [round(math.exp(sum(logs) / len(logs)), 3), len(logs)] for way, logs in found.items()}
