"""The table: what it says, that it is true, and that it fits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from repl import report
from repl.turn import Trouble
from tests.repl.screen import Screen
from verifier.verdict import Accuracy, Check, Timing, Verdict

CHECKS = (
    Check("parses", "pass"),
    Check("values", "pass", "5 seeds, largest error 3e-7"),
    Check("other sizes", "warn", "one row is read beyond its mask, " * 4),
    Check("speed", "skip", "no GPU"),
)
PASSED = Verdict(
    "pass",
    checks=CHECKS,
    warnings=("shrunk from 65536x65536 to 64x128",),
    device="cpu (interpreter)",
    in_triton=("linear", "gelu", "gelu"),
    in_pytorch=("conv2d",),
    accuracy=Accuracy(1e-6, 3.1e-7, 2.2e-7),
)
FAILED = Verdict(
    "fail",
    code="value_mismatch",
    message="output 0 differs at [0, 3]: 1.5 instead of 1.0",
    checks=(Check("parses", "pass"), Check("values", "fail", "1.5 instead of 1.0"), Check("speed", "fail", "later")),
    device="cpu (interpreter)",
    trace="Traceback ...",
)
TIMED = replace(PASSED, device="NVIDIA H200", timing=Timing(1.23, 2.26, 1.5, 1.84, (1.80, 1.88), 0.62))


def text(verdict: Verdict) -> str:
    """Return the plain report as one text, without its line ends."""
    return " ".join(" ".join(report.lines(verdict)).split())


def test_a_pass_in_words() -> None:
    """A verified kernel without a GPU: what ran where, how exact, and that no speed was measured."""
    said = text(PASSED)
    assert "✓ verified on cpu (interpreter)" in said
    assert "in Triton: linear, gelu ×2" in said
    assert "left to PyTorch: conv2d" in said
    assert "largest relative error 3.1e-07 (PyTorch itself: 2.2e-07)" in said
    assert "no speed-up measured: no GPU here" in said
    assert "! shrunk from 65536x65536 to 64x128" in said
    assert "faster" not in said


def test_speed_in_words() -> None:
    """A measured speed-up is told with its interval and both times."""
    assert report.speed(TIMED.timing) == (  # type: ignore[arg-type]
        "1.84× faster than eager, ±2 %: 1.23 ms vs 2.26 ms; torch.compile 1.50 ms; 62 % of what the device allows"
    )
    assert "no speed-up" not in text(TIMED)


@pytest.mark.parametrize(
    ("speedup", "interval", "words"),
    [
        (0.71, (0.70, 0.72), "0.71×: slower than eager"),
        (1.01, (0.97, 1.05), "as fast as eager within the noise"),
        (1.84, (1.80, 1.88), "1.84× faster than eager"),
    ],
)
def test_slower_is_called_slower(speedup: float, interval: tuple[float, float], words: str) -> None:
    """Slower is called slower, and a difference within the noise is no difference."""
    assert report.speed(Timing(1.0, speedup, None, speedup, interval)).startswith(words)


def test_a_failure_shows_its_first_cause() -> None:
    """A failure names its code and message; checks after the first failure are not shown, nor is the trace."""
    said = text(FAILED)
    assert "✗ value_mismatch on cpu (interpreter): output 0 differs at [0, 3]" in said
    assert "later" not in said and "Traceback" not in said
    assert "/show error" in said
    assert "in Triton" not in said


def test_a_failure_is_told_once() -> None:
    """What the failing check and the verdict both say is said in the last row alone."""
    verdict = replace(FAILED, checks=(Check("values", "fail", FAILED.message),))
    assert text(verdict).count("1.5 instead of 1.0") == 1


def test_cannot_verify_is_no_failure() -> None:
    """What could not be judged is neither passed nor failed."""
    said = text(Verdict("cannot_verify", code="no_triton", message="Triton is not installed"))
    assert said.startswith("– cannot verify here: Triton is not installed")


@pytest.mark.parametrize("verdict", [PASSED, FAILED, TIMED])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_fits(verdict: Verdict, width: int) -> None:
    """No row is wider than the window or than 80 columns, and none ends in blanks."""
    for row in report.table(verdict, width=width):
        assert cell_len(row.plain) <= min(width, 80)
        assert row.plain == row.plain.rstrip()


def test_plain_has_no_box() -> None:
    """The plain variant has no box characters."""
    assert "─" not in "".join(report.lines(PASSED))
    assert "─" * 80 in [row.plain for row in report.table(PASSED)]


def test_foreign_text_is_harmless() -> None:
    """Escapes and markup in a message, a detail or an op's name are shown as text."""
    evil = "\x1b[2J[bold]x[/bold]\r\n\x07"
    verdict = replace(FAILED, code=evil, message=evil, checks=(Check(evil, "fail", evil),), warnings=(evil,))
    rows = report.table(verdict) + report.table(replace(PASSED, in_triton=(evil,), device=evil))
    rows += report.trouble(Trouble("syntax_error", evil, evil, 3))
    screen = Screen()
    for row in rows:
        screen.console().print(row)
    assert "\x1b[2J" not in screen.written and "\x07" not in screen.written
    assert "[bold]x[/bold]" in screen.written


def test_an_error_in_words() -> None:
    """An error names its code, its line, and what to do."""
    rows = [row.plain for row in report.trouble(Trouble("syntax_error", "'(' was never closed", "close it", 12))]
    assert rows == ["✗ syntax_error, line 12: '(' was never closed", "  close it"]
