"""Verifications in a row, good, wrong, hanging, crashing and lying kernels mixed, and what they leave behind."""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.verifier.exploits import OTHERS, laundered
from tests.verifier.kernels import PROBLEM, RIGHT, spoiled, with_forward
from verifier.desk import WorkerVerifier
from verifier.verdict import Verdict

PATIENCE = 3.0
"""Seconds one call may take here, so that a hanging kernel does not cost a quarter of a minute."""

KINDS = {
    "right": RIGHT,
    "wrong": spoiled(("0.2 * z", "0.3 * z")),
    "out of bounds": spoiled(("0.2 * z), mask=mask)", "0.2 * z))")),
    "launders": laundered("observers switched off"),
    "forges": with_forward(OTHERS["forged answers on every descriptor"][0]),
    "remembers": with_forward(OTHERS["remembered by the first value"][0], "KEPT = {}"),
    "leaves with success": with_forward('import os\nprint(\'{"outcome": "pass"}\')\nos._exit(0)'),
    "aborts": with_forward("import os\nos.abort()"),
    "forks": with_forward("import os\ntry:\n    os.fork()\nexcept OSError:\n    pass\nreturn self.launch(x)"),
    "floods": with_forward("print('x' * 3_000_000)\nreturn self.launch(x)"),
    "escapes": with_forward("print('\\x1b[2J[bold]')\nreturn self.launch(x)"),
    "eats memory": with_forward("kept = []\nwhile True:\n    kept.append(bytearray(1 << 30))"),
    "raises markup": with_forward("raise ValueError('[/red] \\x1b[31m' + 'y' * 100000)"),
    "leaves a file": with_forward("open('left.txt', 'w').write('here')\nreturn self.launch(x)"),
}
HANGING = {
    "hangs": with_forward("while True:\n    pass"),
    "hangs when imported": "while True:\n    pass\n",
    "ignores signals": with_forward(
        "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True:\n    time.sleep(9)"
    ),
}


@dataclass
class Report:
    """What happened: verdicts by kind, those that differ from a verifier's first, memory and processes over time."""

    verdicts: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)  # bytes of this process, after each verification
    processes: list[int] = field(default_factory=list)  # descendants of this process, after each
    left_processes: int = 0  # after closing
    left_files: list[str] = field(default_factory=list)


def soak(kinds: dict[str, str], times: int, seed: int = 0, alone: dict[str, str] | None = None) -> Report:
    """Verify kernels of mixed kinds and compare each verdict with that of a verifier that judges nothing else.

    Where those verdicts are known already, they are given as `alone`.
    """
    report, rng = Report(), random.Random(seed)
    order = [*kinds, *rng.choices(list(kinds), k=max(0, times - len(kinds)))]
    rng.shuffle(order)
    before = _descendants()
    with _temporary_files() as folder:
        alone = alone or {kind: _judged_alone(kernel) for kind, kernel in kinds.items()}
        desk = WorkerVerifier("cpu")
        try:
            for kind in order[:times]:
                said = _said(desk, kinds[kind])
                report.verdicts[f"{kind}: {said}"] += 1
                if said != alone[kind]:
                    report.different.append(f"{kind}: {said}, alone {alone[kind]}")
                report.resident.append(_resident())
                report.processes.append(len(_descendants() - before))
        finally:
            desk.close()
        report.left_processes = len(_descendants() - before)
        report.left_files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    return report


def _judged_alone(kernel: str) -> str:
    desk = WorkerVerifier("cpu")
    try:
        return _said(desk, kernel)
    finally:
        desk.close()


def _said(desk: WorkerVerifier, kernel: str) -> str:
    *_, verdict = desk.verify(PROBLEM, kernel, speed=False, seconds=PATIENCE)
    assert isinstance(verdict, Verdict)
    return f"{verdict.outcome} {verdict.code}".strip()


@contextmanager
def _temporary_files() -> Iterator[Path]:
    """Have everything that is temporary in one folder, to see what stays there."""
    kept = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        tempfile.tempdir = folder
        os.environ["TMPDIR"], old = folder, os.environ.get("TMPDIR")
        try:
            yield Path(folder)
        finally:
            tempfile.tempdir = kept
            if old is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = old


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def _descendants() -> set[int]:
    """Return the living processes below this one."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            parents[int(folder.name)] = int(parent)
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}
