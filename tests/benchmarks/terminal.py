"""How the prompt feels, in numbers: time to prompt, key echo, cost of streaming, memory over many turns.

`python -m tests.benchmarks.terminal` prints each with its budget. Time and echo are those of the real program, which
imports torch in a child meanwhile; the rest runs with a fake backend.
"""

from __future__ import annotations

import io
import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pexpect
from rich.console import Console

from repl.stream import Stream

ROOT = Path(__file__).parents[2]
MODULE = """import torch
import torch.nn as nn


class Net(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(4, 4)]


def get_init_inputs():
    return []"""


def start(*arguments: str) -> pexpect.spawn:
    """Start a program of the repository on a pty, with a state folder of its own."""
    child = pexpect.spawn(
        sys.executable, list(arguments), cwd=str(ROOT), dimensions=(24, 80), encoding="utf-8", timeout=30
    )
    child.delaybeforesend = None  # pexpect's own 50 ms would be measured as ours
    return child


def time_to_prompt() -> float:
    """Seconds from the start of the process to the prompt's first bytes."""
    began = time.perf_counter()
    child = start("kernelllm.py")
    child.expect("›")
    seconds = time.perf_counter() - began
    child.close(force=True)
    return seconds


def key_echo(keys: int = 150) -> list[float]:
    """Seconds from a key to its echo, one after another, from the first prompt on."""
    child = start("kernelllm.py")
    child.expect("paste an")
    delays = []
    for number in range(keys):
        key = "abcdefghijklmnopqrstuvwxyz"[number % 26]
        began = time.perf_counter()
        child.send(key)
        child.expect_exact(key)
        delays.append(time.perf_counter() - began)
        time.sleep(0.01)
    child.close(force=True)
    return delays


def stream_cpu(seconds: float = 5.0, lines: int = 75) -> float:
    """Share of one core that streaming takes at 15 lines a second, eight pieces a line."""
    console = Console(file=io.StringIO(), force_terminal=True, width=120, height=40, _environ={})
    pause = seconds / lines / 8
    cpu, wall = time.process_time(), time.monotonic()
    with Stream(console, "benchmark") as stream:
        for number in range(lines):
            line = [f"    value_{number} = tl.load(", "ptr", " + ", "offsets", ", ", "mask=mask", ", other=0.0)", "\n"]
            for piece in line:
                stream.write(piece)
                time.sleep(pause)
    return (time.process_time() - cpu) / (time.monotonic() - wall)


def memory(turns: int = 50) -> tuple[int, int]:
    """Resident kilobytes of the terminal's process after five turns and after all of them."""
    child = start("-m", "tests.repl.fake", "quick")
    child.expect("›")
    early = 0
    for turn in range(turns):
        child.send(f"\x1b[200~{MODULE}\x1b[201~")
        child.send("\r")
        child.expect("no speed-up measured")
        child.expect("›")
        early = resident(child.pid) if turn == 4 else early
    late = resident(child.pid)
    child.close(force=True)
    return early, late


def resident(pid: int) -> int:
    """Return the resident memory of a process in kilobytes."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        measure()


def measure() -> None:
    """Print each number beside its budget."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}")
    starts = [time_to_prompt() for _ in range(7)]
    print(f"prompt       {statistics.median(starts):.3f} s (best {min(starts):.3f})   budget 0.4 s")
    delays = sorted(key_echo())
    p95, worst = delays[int(len(delays) * 0.95)], delays[-1]
    print(f"key echo     p95 {p95 * 1e3:.1f} ms, max {worst * 1e3:.1f} ms   budget p95 20 ms")
    print(f"stream       {stream_cpu() * 100:.1f} % of a core   budget 5 %")
    early, late = memory()
    print(f"memory       {early / 1024:.0f} MB after 5 turns, {late / 1024:.0f} MB after 50   budget 120 MB, flat")


if __name__ == "__main__":
    main()
