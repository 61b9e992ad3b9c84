"""Several candidates at once: one live row each while they are written and judged, one table at the end. Pure text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repl.events import CandidateDone, CheckDone, Dropped, Ended, Event, Started, VerdictDone, Wrote
from repl.foreign import one_line
from repl.turn import Candidate, Turn

MARKS = {"pass": "✓", "fail": "✗", "warn": "!", "skip": "–"}
SETTLED, SHOWN = 4, 12
"""Rows of settled candidates that stay in sight, and of all that the live display may take."""

LONGEST = 20
"""Rows of the final table; the budget may have drawn hundreds."""


@dataclass
class _Row:
    origin: str
    state: str = "waiting"
    lines: int = 0
    words: int = 0
    settled: bool = False


class Rows:
    """Follows the events of one turn."""

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}
        self._best = 0
        self._best_is = ""
        self._dropped: dict[str, list[int]] = {}
        self._ended = ""

    def event(self, event: Event) -> None:
        """Take note of what happened."""
        match event:
            case Started(_, number, _, origin):
                self._rows[number] = _Row(origin or f"candidate {number}")
            case Wrote(kind, text, number) if number in self._rows:
                self._wrote(self._rows[number], kind, text)
            case CandidateDone(number, _):
                self._state(number, "verifying")
            case CheckDone(check, number):
                self._state(number, f"verifying · {one_line(check.name)} {MARKS[check.outcome]}")
            case Dropped(number, why):
                self._dropped.setdefault(why, []).append(number)
                self._state(number, f"– {one_line(why)}", settled=True)
            case Ended(why):
                self._ended = why
            case VerdictDone(number, candidate, best):
                if best and candidate.verdict.passed:
                    self._best, self._best_is = number, f"{_merit(candidate)} so far"
                self._state(number, outcome(candidate), settled=True)
            case _:
                pass

    def live(self) -> list[str]:
        """Return the rows to show now: what is open, the newest that are settled, and the best."""
        settled = [n for n, row in self._rows.items() if row.settled]
        hidden = set(settled[:-SETTLED]) - {self._best}
        shown = [n for n in self._rows if n not in hidden][-SHOWN:]
        return [self._told(number) for number in shown]

    def beside(self, width: int) -> list[str]:
        """Return what the final table does not hold: who was not judged and why, and why there are no more."""
        rows = [f"not judged: {_numbers(numbers)} ({one_line(why)})" for why, numbers in self._dropped.items()]
        if self._ended and self._ended not in self._dropped:
            rows.append(f"no more: {one_line(self._ended)}")
        return [f" {row}" if len(row) < width else f" {row[: width - 2]}…" for row in rows]

    def told(self, number: int) -> str:
        """Return one candidate's row as it stands."""
        return self._told(number)

    def _told(self, number: int) -> str:
        row = self._rows[number]
        return f"{row.origin}: {row.state}" + (f" · {self._best_is}" if number == self._best else "")

    def _state(self, number: int, state: str, *, settled: bool = False) -> None:
        row = self._rows.setdefault(number, _Row(f"candidate {number}"))
        row.state, row.settled = state, settled

    def _wrote(self, row: _Row, kind: str, text: str) -> None:
        if kind == "again":
            row.lines = row.words = 0
        elif kind == "reasoning":
            row.words += text.count(" ")
            row.state = f"thinking · {row.words} words"
        elif kind in ("code", "prose"):
            row.lines += text.count("\n")
            row.state = f"writing · {row.lines} line{'s' * (row.lines != 1)}"
        elif kind == "status":
            row.state = one_line(text)


def _numbers(numbers: Sequence[int]) -> str:
    """Name candidates: 2, 3 and 5."""
    *others, last = map(str, numbers)
    return f"candidates {', '.join(others)} and {last}" if others else f"candidate {last}"


def outcome(candidate: Candidate) -> str:
    """Say in a few words what became of a candidate."""
    verdict = candidate.verdict
    if not verdict.passed:
        mark = "✗" if verdict.outcome == "fail" else "–"
        return f"{mark} {one_line(verdict.code)}: {one_line(verdict.message)}"
    timing = verdict.timing
    return "✓ verified" + (f" · {timing.kernel_ms:.4g} ms · {timing.speedup:.2f}× eager" if timing else "")


def table(turn: Turn, width: int) -> list[tuple[str, str]]:
    """Return the final table, a row and its style each: every candidate, and which is kept for what."""
    shown = _shown(turn.candidates, turn.best)
    several = len({candidate.backend for candidate in turn.candidates}) > 1
    sources = [_source(candidate, several) for candidate in shown]
    first = max(map(len, sources), default=0)
    rows = []
    for candidate, source in zip(shown, sources, strict=True):
        kept = candidate is turn.best and candidate.verdict.passed
        merit = f" · {_merit(candidate)}" if kept else ""
        text = f" {source:<{first}}  {_clock(candidate.seconds)}  {outcome(candidate)}"
        text = text if len(text) + len(merit) <= width else text[: width - 1 - len(merit)] + "…"
        rows.append((text + merit, "green" if kept else "dim"))
    left_out = len(turn.candidates) - len(shown)
    rows += [(f" and {left_out} more", "dim")] if left_out else []
    return rows + [(f" {why}", "dim") for why in _why_kept(turn)]


def _source(candidate: Candidate, several: bool) -> str:
    """Say where a candidate comes from; who wrote it only where several wrote."""
    by = f" · {candidate.backend}" if several else ""
    return f"{candidate.origin}{by}" + (" · repaired" if candidate.repaired else "")


def _merit(candidate: Candidate) -> str:
    """Call a verified kernel the best only where a speed was measured."""
    return "best" if candidate.verdict.timing else "kept"


def _why_kept(turn: Turn) -> list[str]:
    """Say which of several verified kernels is kept where no speed tells."""
    verified = [candidate for candidate in turn.candidates if candidate.verdict.passed]
    if len(verified) < 2 or turn.best is None or turn.best.verdict.timing:
        return []
    why = "the first" if turn.best is verified[0] else "the one that leaves the least to PyTorch"
    return [f"{len(verified)} are verified and none was timed: {why} is kept"]


def _shown(candidates: Sequence[Candidate], best: Candidate | None) -> list[Candidate]:
    if len(candidates) <= LONGEST:
        return list(candidates)
    return [c for c in candidates if c in candidates[-LONGEST:] or c is best]


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:3}:{int(seconds) % 60:02}"
