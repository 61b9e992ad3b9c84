"""How long people wait: --help, the prompt, and from Enter to the table for four modules, cold and warm.

`python -m tests.benchmarks.latency` prints the numbers of this machine; they are a measurement, not a test.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pexpect

from repl.arguments import parse
from repl.convert import convert
from repl.events import CandidateDone, CheckDone, VerdictDone
from repl.parts import opened
from tests.benchmarks.modules import MODULES, SMALL
from verifier.problem import Problem

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = [sys.executable, str(ROOT / "kernelllm.py")]
ENDINGS = ["verified on", "cannot verify here", "✗ "]
READING = 2.0
"""Seconds between a verdict and the next module: whoever pastes has read the table, and children had time to start."""
SPEED = re.compile(r"[0-9.]+×[^\r\n]*|as fast as eager[^\r\n]*")


def main() -> None:
    """Print every number."""
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {sys.version.split()[0]}")
    print(f"--help           {statistics.median(_help() for _ in range(7)):6.2f} s (budget 0.2)")
    print(f"prompt drawn     {statistics.median(_prompt() for _ in range(5)):6.2f} s (budget 0.4)")
    _pasted()
    _phases()


def _help() -> float:
    began = time.monotonic()
    subprocess.run([*COMMAND, "--help"], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def _prompt() -> float:
    began = time.monotonic()
    terminal = _terminal()
    waited = time.monotonic() - began
    _leave(terminal)
    return waited


def _pasted() -> None:
    """From Enter to the verdict, as the person at the terminal sees it."""
    print("\nEnter to table   cold      warm      said")
    for name, source in MODULES.items():
        terminal = _terminal()
        (cold, _), (warm, said) = _convert(terminal, source), _convert(terminal, source)
        print(f"{name:16} {cold:5.2f} s   {warm:5.2f} s   {said}")
        _leave(terminal)


def _phases() -> None:
    """The same without a terminal, warm, taken apart: writing, the wait for the first check, judging."""
    print("\nwarm             writing   1st check  judging   outcome (against eager alone)")
    settings = parse(["--baseline", "eager"])
    with opened(settings) as (backend, verifier):
        for name, source in {**SMALL, **MODULES}.items():
            for _ in range(3):
                time.sleep(READING)
                began = time.monotonic()
                marks: dict[type, float] = {}
                outcome = ""
                for event in convert(Problem.parse(source), backend, verifier, settings.options):
                    marks.setdefault(type(event), time.monotonic())
                    if isinstance(event, VerdictDone):
                        verdict = event.candidate.verdict
                        outcome = f"{verdict.outcome} {verdict.code} on {verdict.device}"
                        if verdict.timing:
                            outcome += f", {verdict.timing.speedup:.2f}x eager"
            written = marks.get(CandidateDone, began)
            first = marks.get(CheckDone, written)
            judged = marks.get(VerdictDone, written)
            waits = (written - began, first - written, judged - written)
            print(f"{name:16} " + "   ".join(f"{seconds:5.2f} s" for seconds in waits) + f"   {outcome}")


def _terminal() -> pexpect.spawn:
    environment = {**os.environ, "XDG_STATE_HOME": tempfile.mkdtemp(prefix="latency-"), "TERM": "xterm-256color"}
    terminal = pexpect.spawn(
        COMMAND[0], COMMAND[1:], dimensions=(40, 100), env=environment, encoding="utf-8", timeout=180
    )
    terminal.expect("› ")
    return terminal


def _convert(terminal: pexpect.spawn, source: str) -> tuple[float, str]:
    terminal.send(f"\x1b[200~{source}\x1b[201~")
    time.sleep(0.5)
    began = time.monotonic()
    terminal.send("\r")
    ending = terminal.expect(ENDINGS)
    waited = time.monotonic() - began
    terminal.expect("› ")
    speed = SPEED.search(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.before or ""))
    return waited, f"{ENDINGS[ending]}{f': {speed[0].strip()}' if speed else ''}"


def _leave(terminal: pexpect.spawn) -> None:
    time.sleep(0.2)
    terminal.sendeof()
    terminal.expect(pexpect.EOF)
    terminal.close()


if __name__ == "__main__":
    main()
