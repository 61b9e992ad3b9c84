"""The verifier as the terminal holds it: stopped at once, alive after whatever the pasted module does."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.verifier.conftest import Judge
from tests.verifier.kernels import PROBLEM, RIGHT, with_forward
from verifier.desk import LOAD_SECONDS, InProcessVerifier, WorkerVerifier
from verifier.errors import VerificationError
from verifier.problem import Problem
from verifier.verdict import Check, Verdict

FOREVER = with_forward("while True:\n    pass")


def with_line(line: str) -> Problem:
    """The problem with one more line at its end."""
    return replace(PROBLEM, source=f"{PROBLEM.source}\n{line}\n")


def processes() -> set[int]:
    """The living descendants of this process."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            parents[int(path.parent.name)] = int(parent)
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def test_closing_the_generator_stops_everything(desk: WorkerVerifier, judge: Judge) -> None:
    """Ctrl-C while a kernel hangs: the generator closes at once, no child stays, the next verdict is right."""
    judge(PROBLEM, RIGHT)
    desk.cancel()
    time.sleep(0.5)
    quiet = processes()
    steps = desk.verify(PROBLEM, FOREVER, speed=False)
    assert isinstance(next(steps), Check) and isinstance(next(steps), Check)
    time.sleep(0.3)
    started = time.monotonic()
    steps.close()
    assert time.monotonic() - started < 0.2
    assert _settled(quiet) == quiet
    assert judge(PROBLEM, RIGHT).passed


def _settled(wanted: set[int]) -> set[int]:
    """Wait a little for dying processes."""
    deadline = time.monotonic() + 3
    while (now := processes()) != wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    return now


@pytest.mark.parametrize(
    ("victims", "busy"), [("the forking process", False), ("the interpreting process", True), ("all", True)]
)
def test_killed_from_outside(victims: str, busy: bool) -> None:
    """Whoever kills our processes, a busy system for one, the kernel and the module are not blamed: one can go on."""
    desk = WorkerVerifier()
    try:
        *_, verdict = desk.verify(PROBLEM, RIGHT, speed=False)
        steps = desk.verify(PROBLEM, FOREVER if busy else RIGHT, speed=False)
        if busy:
            assert isinstance(next(steps), Check) and isinstance(next(steps), Check)
        assert desk._nursery._process is not None
        first = desk._nursery._process.pid
        sibling = int(Path(f"/proc/{first}/task/{first}/children").read_text().split()[0])
        ours = {"the forking process": [first], "the interpreting process": [sibling]}
        for pid in ours.get(victims, [*processes() - {os.getpid()}]):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.3)  # for those that die with their parent
        if busy:
            with pytest.raises(VerificationError) as error:
                list(steps)
            assert error.value.code == "verifier_unavailable"
        *_, verdict = desk.verify(PROBLEM, RIGHT, speed=False)
        assert isinstance(verdict, Verdict) and verdict.passed
    finally:
        desk.close()


PASTES = {
    "raise ValueError('no')": "reference_error",
    "import sys; sys.exit(3)": "reference_error",
    "import os; os._exit(3)": "reference_error",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": "reference_error",
    "input()": "reference_error",
    "import no_such_package_here": "missing_package",
}


@pytest.mark.parametrize("line", PASTES)
def test_what_the_paste_does_is_explained(desk: WorkerVerifier, judge: Judge, line: str) -> None:
    """A module that raises, exits or dies is an error with a way out, and the verifier lives on."""
    with pytest.raises(VerificationError) as error:
        list(desk.verify(with_line(line), RIGHT, speed=False))
    assert error.value.code == PASTES[line] and error.value.message and error.value.hint
    assert judge(PROBLEM, RIGHT).passed


def test_a_module_that_never_ends_is_named_by_its_line(desk: WorkerVerifier) -> None:
    """An endless loop at import is stopped, and the line is said."""
    problem = with_line("while True: pass")
    desk.cancel()
    desk.load_seconds = 1.0
    try:
        with pytest.raises(VerificationError) as error:
            list(desk.verify(problem, RIGHT, speed=False))
    finally:
        desk.load_seconds = LOAD_SECONDS
        desk.cancel()
    assert error.value.code == "load_timeout"
    assert error.value.line == problem.source.count("\n")


def test_the_module_s_own_settings_are_its_own(judge: Judge) -> None:
    """A module that sets a default dtype is judged with it."""
    setting = "torch.set_default_dtype(torch.float64)\n\n\nclass Model"
    problem = replace(PROBLEM, source=PROBLEM.source.replace("class Model", setting))
    assert judge(problem, RIGHT).passed


def test_a_large_problem_is_shrunk_and_said(judge: Judge) -> None:
    """What is too large to interpret is made smaller, and the table says from what to what."""
    source = PROBLEM.source.replace("torch.randn(5, 37)", "torch.randn(4096, 8192)").replace("[37]", "[8192]")
    verdict = judge(replace(PROBLEM, source=source), RIGHT)
    assert verdict.passed, (verdict.code, verdict.message)
    assert any("4096x8192" in warning for warning in verdict.warnings)


def test_in_process_needs_triton_unloaded_or_interpreting() -> None:
    """Where Triton was imported compiling, kernels cannot be interpreted, and that is said."""
    import triton  # noqa: F401  # as a notebook has it

    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("this process interprets")
    with pytest.raises(VerificationError, match="TRITON_INTERPRET"):
        list(InProcessVerifier("cpu").verify(PROBLEM, RIGHT))
