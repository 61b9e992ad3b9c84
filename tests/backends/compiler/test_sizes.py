"""A file written at one size runs at others: one row, odd numbers, larger ones."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.backends.compiler.examples import EXAMPLES, MORE


def test_a_file_runs_at_sizes_it_was_not_written_for() -> None:
    """Every size comes from the inputs' shapes at run time; none is written into the text."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.backends.compiler.other_sizes"], capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == sum(len(example.others) for example in {**EXAMPLES, **MORE}.values())
    assert [row for row in rows if row["kind"] != "right"] == []
