"""The rehearsal before a candidate comes: it runs through, and nothing of it is left."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path


def _rehearsed(folder: str) -> list[str]:
    os.chdir(folder)
    os.environ["TRITON_INTERPRET"] = "1"
    from verifier.candidate import instrument
    from verifier.rehearsal import rehearse

    rehearse("cpu", instrument("cpu"))
    return [*os.listdir(folder), *(name for name in sys.modules if name == "kernel")]


def test_it_runs_through_and_leaves_nothing(tmp_path: Path) -> None:
    """Loading, parameters, a traced call, a falsified one and a repeated one; no file and no module stay."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_rehearsed, (str(tmp_path),)) == []
