"""The real prompt on a terminal in memory: paste a problem, wait for the verdict, read the screen.

`python -m tests.transcripts.session` prints each transcript as it comes out now.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pexpect

from tests.repl.screen import Screen

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
RECORDINGS = ROOT / "tests/backends/recordings"
PROBLEM = (RECORDINGS / "softmax.py").read_text()
READY = "paste an nn.Module"


@dataclass
class Session:
    """A prompt and what is on its screen."""

    child: pexpect.spawn
    screen: Screen

    def paste(self, text: str = PROBLEM) -> None:
        """Paste a module and press Enter."""
        self.child.send(f"\x1b[200~{text}\x1b[201~\r")

    def see(self, text: str, seconds: int = 100) -> list[str]:
        """Wait until the text is written, and return the rows in sight."""
        self.child.expect(text, timeout=seconds)
        return [row.rstrip() for row in self.screen.screen.display]

    def resize(self, columns: int, rows: int) -> None:
        """Change the window's size as terminals do."""
        self.child.setwinsize(rows, columns)
        self.screen.resize(columns, rows, reflow=True)


@contextmanager
def prompt(*words: str, columns: int = 80, rows: int = 24, **environment: str) -> Iterator[Session]:
    """Open the prompt in a home of its own, judging without a GPU."""
    with tempfile.TemporaryDirectory() as home:
        screen = Screen(columns, rows)
        env = {**os.environ, "XDG_STATE_HOME": home, "TERM": "xterm-256color", **environment}
        child = pexpect.spawn(
            sys.executable, [str(ROOT / "kernelllm.py"), "--device", "cpu", *words],
            cwd=str(RECORDINGS), env=env, dimensions=(rows, columns), encoding="utf-8", timeout=100,
        )  # fmt: skip
        child.delaybeforesend = None
        child.logfile_read = screen
        try:
            child.expect(READY)
            yield Session(child, screen)
        finally:
            child.close(force=True)


def transcript(*words: str) -> str:
    """Return what stands below the pasted module once the prompt is back, without the single checks."""
    with prompt(*words) as session:
        session.paste()
        session.see("get_init_inputs")
        session.see("(✓|✗) .{0,9}(verified|[a-z_]+)[^\n]* on cpu|✗ [a-z_]+:")
        session.child.expect(READY)
        below = "\n".join(session.screen.rows()).rpartition("    return []\n")[2]
    return open_ended(below.partition("\n› ")[0].strip("\n")) + "\n"


def open_ended(text: str) -> str:
    """Leave open what differs from run to run, clocks and rounding errors, and what is the verifier's: its checks."""
    text = re.sub(r"─{80}\n check .*─{80}\n", f"{'─' * 80}\n", text, flags=re.S)
    text = re.sub(r"\b\d+:\d\d\b", "0:00", text)
    return re.sub(r"\b\d\.\de-\d\d\b", "0.0e-00", text)


TRANSCRIPTS = {
    "three_failures": ("--backend", "recorded", "--model", "three_failures", "--budget", "5m"),
    "best_of_four": ("--backend", "recorded", "--model", "best_of_four", "-k", "4"),
}


if __name__ == "__main__":
    for name in sys.argv[1:] or TRANSCRIPTS:
        print(f"── {name}\n{transcript(*TRANSCRIPTS[name])}")
