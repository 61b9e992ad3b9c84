"""At the size people run, the kernels compile for a real GPU; a small interpreted problem does not show that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path("backends/examples")


def test_no_kernel_spills_registers_or_needs_too_much_shared_memory() -> None:
    """What the benchmark finds over KernelBench, for the examples that are in the repository."""
    files = [EXAMPLES / kind / "problem.py" for kind in ("matmul", "attention", "softmax", "reduction")]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.full_size", *map(str, files)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=110,
    )
    assert ran.returncode == 0, ran.stderr
    last = ran.stdout.splitlines()[-1]
    assert last.startswith("4 problems, 0 not converted, 0 not called")
    assert "0 do not compile or do not fit, 0 spill" in last, ran.stdout
