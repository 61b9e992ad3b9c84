"""einsum is written in every form that names its dimensions and repeats none within an operand."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.backends.compiler.equations import EQUATIONS
from tests.backends.compiler.test_capture import refusal
from tests.backends.compiler.written import source


def test_every_form_gives_what_pytorch_gives() -> None:
    """Products of matrices, outer and inner products, sums, several operands, and dots for any dimensions."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.backends.compiler.equations"], capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == len(EQUATIONS) and [row for row in rows if row["kind"] != "right"] == []


def test_a_diagonal_stays_in_pytorch() -> None:
    """A letter twice in one operand reads a diagonal, which no rule writes."""
    assert "einsum would all stay" in refusal(source("return torch.einsum('ii->i', x0)", (4, 4))).message
