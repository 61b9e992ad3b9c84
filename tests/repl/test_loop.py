"""The prompt as a process on a real terminal, with a fake backend and verifier."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from repl import loop
from repl.arguments import parse
from tests.repl.fake import KERNEL
from tests.repl.modules import BROKEN, LONG, SMALL

ROOT = Path(__file__).parents[2]
PROMPT = "paste an nn.Module"

Start = Callable[..., pexpect.spawn]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the program on a terminal of its own; end it after the test."""
    children = []

    def spawn(mode: str = "quick", *options: str, wait: bool = True, **environment: str) -> pexpect.spawn:
        env = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm-256color", **environment}
        arguments = ["-m", "tests.repl.fake", mode, *options]
        child = pexpect.spawn(
            sys.executable, arguments, cwd=str(ROOT), env=env, dimensions=(24, 80), encoding="utf-8", timeout=15
        )
        child.delaybeforesend = None
        children.append(child)
        if wait:
            child.expect(PROMPT)
        return child

    yield spawn
    for child in children:
        child.close(force=True)


def turns(state: Path) -> list[Path]:
    """Return the files that all sessions kept, in order."""
    return sorted((state / "kernelllm").glob("sessions/*/*"))


def conversions(state: Path) -> int:
    """Return how many turns came to a verdict."""
    return sum(path.name.endswith("verdict.json") for path in turns(state))


def leave(child: pexpect.spawn) -> int:
    """Press Ctrl-D and return the exit code."""
    child.send("\x04")
    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus if child.exitstatus is not None else -child.signalstatus)


@pytest.mark.parametrize("way", ["bracketed", "raw", "before the prompt"])
def test_a_paste_is_one_conversion(start: Start, tmp_path: Path, way: str) -> None:
    """124 lines, pasted in any way, are one conversion of exactly that text."""
    child = start(wait=way != "before the prompt")
    child.send(f"\x1b[200~{LONG}\x1b[201~\r" if way == "bracketed" else LONG.replace("\n", "\r") + "\r")
    child.expect("no speed-up measured")
    child.expect(PROMPT)
    time.sleep(0.2)
    assert leave(child) == 0
    assert conversions(tmp_path) == 1
    assert turns(tmp_path)[-2].name == "01-problem.py"
    assert turns(tmp_path)[-2].read_text().strip() == LONG.strip()


def test_a_session(start: Start, tmp_path: Path) -> None:
    """Paste, kernel, table, command, Ctrl-D: exit code 0, and everything is kept."""
    child = start()
    child.send(f"\x1b[200~{SMALL}\x1b[201~\r")
    child.expect("verified on cpu")
    child.send("/show problem\r")
    child.expect("return.{1,20}torch")
    assert leave(child) == 0
    assert [path.name for path in turns(tmp_path)] == ["01-kernel.py", "01-problem.py", "01-verdict.json"]
    assert turns(tmp_path)[0].read_text() == KERNEL


def test_ctrl_c_while_generating(start: Start, tmp_path: Path) -> None:
    """Ctrl-C stops the writing within 0.2 s, keeps the partial kernel, and the prompt is back."""
    child = start("block")
    child.send(f"\x1b[200~{SMALL}\x1b[201~\r")
    child.expect("line_19 ")
    time.sleep(0.3)
    began = time.monotonic()
    child.sendintr()
    child.expect(PROMPT)
    assert time.monotonic() - began < 0.4  # 0.2 s, and as much for the machine that runs the tests
    assert leave(child) == 0
    assert turns(tmp_path)[0].read_text() == "".join(KERNEL.splitlines(keepends=True)[:20])
    assert json.loads(turns(tmp_path)[-1].read_text())["error"]["code"] == "interrupted"


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_what_was_written_outlives_termination(start: Start, tmp_path: Path, sent: int) -> None:
    """Terminated, or with its window closed, while a kernel streams in: the part that was written is kept."""
    child = start("block")
    child.send(f"\x1b[200~{SMALL}\x1b[201~\r")
    child.expect_exact("line_19")
    child.kill(sent)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 128 + sent
    (kernel,) = tmp_path.rglob("01-kernel.py")
    assert "line_19" in kernel.read_text() and "line_20" not in kernel.read_text()


def test_ctrl_c_while_verifying(start: Start, tmp_path: Path) -> None:
    """Ctrl-C while judging returns to the prompt with the whole kernel kept and no verdict."""
    child = start("hang")
    child.send(f"\x1b[200~{SMALL}\x1b[201~\r")
    child.expect("verifying")
    time.sleep(0.3)
    child.sendintr()
    child.expect("stopped")
    child.expect(PROMPT)
    assert leave(child) == 0
    assert turns(tmp_path)[0].read_text() == KERNEL
    assert json.loads(turns(tmp_path)[-1].read_text())["verdict"] is None


def test_ctrl_c_keeps_the_candidates_that_were_judged(start: Start, tmp_path: Path) -> None:
    """Ctrl-C while the second candidate is written leaves the first, with its verdict, and the part of the second."""
    child = start("block second", "-k", "2")
    child.send(f"\x1b[200~{SMALL}\x1b[201~\r")
    child.expect("candidate 2: writing · 2[01] lines")
    time.sleep(0.2)
    child.sendintr()
    child.expect("line_39 ")  # the code of the best, then the table of those that were judged
    child.expect("candidate 1  ")
    child.expect("verified on cpu")
    child.expect("stopped")
    child.expect(PROMPT)
    assert leave(child) == 0
    second, first, _, verdict = turns(tmp_path)
    assert first.read_text() == KERNEL and second.name == "01-candidate-2.py" and "line_19" in second.read_text()
    kept = json.loads(verdict.read_text())
    assert kept["verdict"]["outcome"] == "pass" and kept["error"]["code"] == "interrupted"


def test_mashed_ctrl_c_does_not_leave(start: Start) -> None:
    """Ctrl-C twenty times, while generating and at the prompt, leaves the session alive."""
    child = start("block")
    child.send(f"\x1b[200~{SMALL}\x1b[201~\r")
    child.expect("line_19 ")
    for _ in range(20):
        child.sendintr()
        time.sleep(0.02)
    child.expect(PROMPT)
    child.send("/help\r")
    child.expect("Ctrl-D")
    assert leave(child) == 0


def test_a_dying_backend_is_one_line(start: Start) -> None:
    """A backend that raises is an error line with its words as they are; the prompt returns at once."""
    child = start("raise")
    child.send(f"\x1b[200~{SMALL}\x1b[201~\r")
    child.expect_exact("internal_error: RuntimeError: the generator died [/bold]")
    child.expect(PROMPT)
    child.send("/show error\r")
    child.expect("Traceback")
    assert leave(child) == 0


def test_a_broken_paste_is_told(start: Start) -> None:
    """A syntax error is answered with its code and line, and the prompt again."""
    child = start()
    child.send(f"\x1b[200~{BROKEN}\x1b[201~\r")
    child.expect("syntax_error, line 7")
    child.expect(PROMPT)
    assert leave(child) == 0


def test_keys_typed_meanwhile_wait(start: Start) -> None:
    """Keys typed while code streams do not show in it; the next prompt has them."""
    child = start("slow")
    child.send(f"\x1b[200~{SMALL}\x1b[201~\r")
    child.expect("line_5 ")
    child.send("/show problem\r")
    child.expect("verified on cpu")
    assert "show" not in child.before
    child.expect("return.{1,20}torch")
    assert leave(child) == 0


def test_the_terminal_is_restored(start: Start) -> None:
    """After leaving, also by a signal, echo is on and the cursor is shown."""
    child = start("block")
    child.send(f"\x1b[200~{SMALL}\x1b[201~\r")
    child.expect("line_19 ")
    assert not child.getecho()
    child.sendintr()
    child.expect(PROMPT)
    child.send("\x04")
    child.expect(pexpect.EOF)
    assert child.getecho()
    written = child.before
    assert "\x1b[?25l" not in written[written.rfind("\x1b[?25h") :]


def test_no_torch_in_the_terminal(start: Start, tmp_path: Path) -> None:
    """After a conversion the terminal's process has no torch, triton or transformers in it and is small."""
    child = start()
    child.send(f"\x1b[200~{SMALL}\x1b[201~\r")
    child.expect("no speed-up measured")
    maps = Path(f"/proc/{child.pid}/maps")
    if not maps.exists():
        pytest.skip("needs /proc")
    assert not re.search(r"torch|triton|transformers", maps.read_text())
    resident = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{child.pid}/status").read_text())
    assert resident and int(resident[1]) < 120 * 1024


def test_plain_has_no_escapes(start: Start, tmp_path: Path) -> None:
    """A dumb terminal gets text alone; a line with a dot converts, and Ctrl-D leaves."""
    child = start(wait=False, TERM="dumb")
    child.expect('only "."')
    for line in [*SMALL.splitlines(), "."]:
        child.sendline(line)
    child.expect("no speed-up measured")
    assert "\x1b" not in child.before
    assert "✓ pass" in child.before and "─" not in child.before
    assert leave(child) == 0
    assert conversions(tmp_path) == 1


def test_plain_ctrl_c_drops_the_text(start: Start, tmp_path: Path) -> None:
    """In plain mode Ctrl-C drops what was typed and leaves the session alive."""
    child = start("quick", "--plain", wait=False)
    child.expect('only "."')
    child.sendline("class Net:")
    time.sleep(0.2)
    child.sendintr()
    child.expect("Ctrl-D leaves")
    child.sendline("/quit")
    child.expect(pexpect.EOF)
    assert conversions(tmp_path) == 0


def test_a_home_that_cannot_be_written(start: Start, tmp_path: Path) -> None:
    """Where no state can be kept the prompt works, with one warning."""
    (tmp_path / "file").write_text("")
    child = start(wait=False, XDG_STATE_HOME=str(tmp_path / "file"))
    child.expect("nothing is kept")
    child.expect(PROMPT)
    child.send(f"\x1b[200~{SMALL}\x1b[201~\r")
    child.expect("verified on cpu")
    assert "nothing is kept" not in child.before
    assert leave(child) == 0


def test_the_prompt_needs_nothing_heavy() -> None:
    """What is imported before the first prompt holds no torch, no rich and no lexer of rich."""
    code = (
        "import sys, repl.loop, repl.editor, repl.commands, repl.highlight;"
        "print([m for m in ('torch', 'triton', 'transformers', 'numpy', 'rich', 'verifier.judge') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("model", "writer"),
    [
        ("http://10.0.0.1:8000/v1", "10.0.0.1:8000"),
        ("ollama#qwen3:8b", "qwen3:8b"),
        ("ollama", "ollama"),
        ("facebook/KernelLLM#8bit", "KernelLLM"),
        ("/a/b/c.gguf", "c.gguf"),
    ],
)
def test_greeting_names_who_writes(model: str, writer: str) -> None:
    """A server by its model or its host, a local model by the last part of its path."""
    assert loop.greeting(parse(["--model", model])).startswith(f"KernelLLM · {writer} · ")


def test_greeting_fits_one_row() -> None:
    """The first line is one row of at most 80 columns, whatever the model is called."""
    settings = parse(["--model", "somebody/" + "long-name-" * 20])
    line = loop.greeting(settings)
    assert len(line) <= 80 and line.startswith("KernelLLM · ") and line.endswith("/help")


def test_a_dumb_terminal_is_recognised() -> None:
    """TERM says whether the terminal can draw."""
    assert loop.is_dumb({"TERM": "dumb"})
    assert not loop.is_dumb({"TERM": "xterm"})
