"""Verdict → what a person reads: one table of at most 80 columns, the same rows in colour or plain.

The words claim only what the verdict holds: without a GPU there is no speed in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from repl.foreign import one_line
from verifier.verdict import Check, Timing, Verdict

if TYPE_CHECKING:
    from rich.text import Text

    from repl.turn import Trouble

WIDTH = 80
NAME_WIDTH = 22
RESULT_WIDTH = 6

_MARKS = {"pass": "✓ pass", "fail": "✗ fail", "warn": "! warn", "skip": "– skip"}
_STYLES = {"pass": "green", "fail": "bold red", "warn": "yellow", "skip": "dim"}
_HEADLINES = {"pass": ("✓", "green"), "fail": ("✗", "bold red"), "cannot_verify": ("–", "yellow")}


def table(verdict: Verdict, *, width: int = WIDTH, frame: bool = True) -> list[Text]:
    """Lay the verdict out as coloured rows, the verdict in words last."""
    width = min(width, WIDTH)
    name_width = min(NAME_WIDTH, max([len("check"), *(len(one_line(c.name)) for c in verdict.checks)]))
    rows = [row for check in _shown(verdict) for row in _check_rows(check, name_width, width)]
    head = [_styled(f" {'check':<{name_width}}  {'result':<{RESULT_WIDTH}}  detail", "bold")] if rows else []
    rule = [_styled("─" * width, "dim")] if frame else []
    return [*rule, *head, *rule, *rows, *rule, *_summary(verdict, width)] if rows else _summary(verdict, width)


def lines(verdict: Verdict, *, width: int = WIDTH) -> list[str]:
    """Lay the verdict out as plain text without box characters."""
    return [row.plain for row in table(verdict, width=width, frame=False)]


def trouble(error: Trouble, *, width: int = WIDTH) -> list[Text]:
    """Lay an error out: its code, the line, what happened, and below what to do."""
    where = f", line {error.line}" if error.line else ""
    stopped = error.code == "interrupted"
    text = f"– {one_line(error.message)}" if stopped else f"✗ {error.code}{where}: {one_line(error.message)}"
    rows = [_styled(row, "yellow" if stopped else "bold red") for row in _wrapped(text, width)]
    return rows + [_styled(f"  {row}", "dim") for row in _wrapped(one_line(error.hint), width - 2)]


def words(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """Yield the verdict in sentences, each with its style; the first is the answer."""
    mark, style = _HEADLINES[verdict.outcome]
    yield f"{mark} {_headline(verdict)}", style
    if verdict.passed:
        yield from ((text, "") for text in _where_it_ran(verdict))
        if verdict.accuracy:
            worst, eager = verdict.accuracy.max_rel, verdict.accuracy.eager_max_rel
            yield f"largest relative error {_small(worst)} (PyTorch itself: {_small(eager)})", ""
        if verdict.timing:
            yield speed(verdict.timing), _speed_style(verdict.timing)
        elif "interpreter" in verdict.device:
            yield "no speed-up measured: no GPU here", "dim"
        elif verdict.device:
            yield "no speed-up measured", "dim"
    for warning in verdict.warnings:
        yield f"! {one_line(warning)}", "yellow"
    if verdict.trace and not verdict.passed:
        yield "/show error prints the whole trace", "dim"


def speed(timing: Timing) -> str:
    """Say the measured speed in words, with both times; a difference within the noise is called that."""
    low, high = timing.interval
    spread = (high - low) / 2 / timing.speedup * 100 if timing.speedup else 0.0
    times = f"{_milliseconds(timing.kernel_ms)} vs {_milliseconds(timing.eager_ms)}"
    if low <= 1 <= high:
        said = f"as fast as eager within the noise ({timing.speedup:.2f}×, ±{spread:.0f} %): {times}"
    else:
        kind = "faster" if timing.speedup > 1 else "slower"
        factor = f"{timing.speedup:.2f}× faster than" if kind == "faster" else f"{timing.speedup:.2f}×: slower than"
        said = f"{factor} eager, ±{spread:.0f} %: {times}"
    if timing.compile_ms is not None:
        said += f"; torch.compile {_milliseconds(timing.compile_ms)}"
    if timing.roofline is not None:
        said += f"; {timing.roofline * 100:.0f} % of what the device allows"
    return said


def _headline(verdict: Verdict) -> str:
    on = f" on {one_line(verdict.device)}" if verdict.device else ""
    if verdict.passed:
        return f"verified{on}"
    message = one_line(verdict.message) or "no reason was given"
    code = one_line(verdict.code)
    if verdict.outcome == "cannot_verify":
        return f"cannot verify here: {message}" + (f" [{code}]" if code else "")
    return f"{code}{on}: {message}" if code else f"failed{on}: {message}"


def _where_it_ran(verdict: Verdict) -> Iterator[str]:
    if verdict.in_triton:
        yield f"in Triton: {_listed(verdict.in_triton)}"
    if verdict.in_pytorch:
        yield f"left to PyTorch: {_listed(verdict.in_pytorch)}"


def _listed(names: tuple[str, ...]) -> str:
    counted = {name: names.count(name) for name in names}
    return ", ".join(one_line(name) + (f" ×{count}" if count > 1 else "") for name, count in counted.items())


def _shown(verdict: Verdict) -> list[Check]:
    """The checks up to and with the first failure: what follows it is a consequence or was not run."""
    shown: list[Check] = []
    for check in verdict.checks:
        if check.outcome == "fail":
            # The last row says it in words; once is enough.
            said = one_line(check.detail) in one_line(verdict.message)
            return [*shown, replace(check, detail="") if said else check]
        shown.append(check)
    return shown


def _check_rows(check: Check, name_width: int, width: int) -> list[Text]:
    indent = 1 + name_width + 2 + RESULT_WIDTH + 2
    detail = _wrapped(one_line(check.detail), width - indent) or [""]
    name = one_line(check.name)[:name_width]
    first = _styled(f" {name:<{name_width}}  ", "")
    first.append(_MARKS[check.outcome], _STYLES[check.outcome])
    if detail[0]:
        first.append("  " + detail[0])
    return [first, *(_styled(" " * indent + more, "") for more in detail[1:])]


def _summary(verdict: Verdict, width: int) -> list[Text]:
    rows = []
    for text, style in words(verdict):
        first, *more = _wrapped(text, width - 3) or [""]
        rows += [_styled(" " + first, style), *(_styled("   " + row, style) for row in more)]
    return rows


def _wrapped(text: str, width: int) -> list[str]:
    from rich.console import Console
    from rich.text import Text

    width = max(width, 8)
    return [row.plain.rstrip() for row in Text(text).wrap(Console(width=width), width)] if text else []


def _styled(text: str, style: str) -> Text:
    from rich.text import Text

    return Text(text, style=style)


def _speed_style(timing: Timing) -> str:
    low, high = timing.interval
    return "bold green" if low > 1 else "yellow" if high < 1 else ""


def _milliseconds(value: float) -> str:
    return f"{value * 1000:.1f} µs" if value < 0.1 else f"{value:.2f} ms" if value < 100 else f"{value:.0f} ms"


def _small(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}"
