"""NaN, infinities, signed zeros, halves and overflow come out as they do in PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.backends.compiler.special_values import CALLS, PAIRS


def test_formulas_hold_where_they_usually_break() -> None:
    """Every function is converted, and gives PyTorch's answer for each of the awkward numbers."""
    command = [sys.executable, "-m", "tests.backends.compiler.special_values"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == len(CALLS) + len(PAIRS)
    assert [row for row in rows if row["kind"] != "right"] == []
