"""What to ask for next: a fresh sample, a fix of what failed, or a faster version of what is right. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from backends import Request
from repl.events import Options
from repl.feedback import feedback_of
from repl.turn import Candidate, Turn, rank
from verifier.problem import Problem

Kind = Literal["candidate", "fix", "faster"]

FIXES = 3
"""Fixes of one lineage: what did not get right by then seldom does, and fresh samples are worth more."""

_BEFORE: tuple[Kind, ...] = ("fix", "fix", "fix", "candidate", "candidate")
_AFTER: tuple[Kind, ...] = ("faster", "fix", "faster", "candidate", "faster")
"""How the rounds share the budget before and after the first verified kernel. Iteration rescues kernels, and fresh
samples that are right at once are faster: neither gets everything."""

AFTER_A_SEED: tuple[Kind, ...] = ("faster", "candidate")
"""Without a budget, beside a verified kernel of another backend: to be beaten, and to be ignored, in turns."""


@dataclass(frozen=True)
class Ask:
    """One request, what it is for, and the candidate it starts from."""

    number: int
    kind: Kind
    request: Request
    parent: int | None = None

    @property
    def origin(self) -> str:
        """Say in words where the candidate comes from."""
        return f"{self.kind} {self.number}" + (f" of {self.parent}" if self.parent else "")


@dataclass
class Pace:
    """How long writing and judging took so far, in seconds, to tell what can still be finished."""

    writing: list[float] = field(default_factory=list)
    judging: list[float] = field(default_factory=list)

    def fits(self, left: float) -> bool:
        """Tell whether another candidate can be expected to be written and judged in the time that is left."""
        expected = sum(statistics.median(times) for times in (self.writing, self.judging) if times)
        return left > max(expected, 0.0)

    def judgement_fits(self, left: float) -> bool:
        """Tell whether another answer can be expected to be judged in the time that is left."""
        return left > (statistics.median(self.judging) if self.judging else 0.0)


@dataclass
class Plan:
    """Decides each request from what is known when it is made."""

    problem: Problem
    options: Options
    takes_feedback: bool = True
    asked: list[Ask] = field(default_factory=list)
    repeats: int = 0
    """Known answers that came back in a row."""

    def goes_on(self, done: Sequence[Candidate], left: float | None, pace: Pace) -> bool:
        """Tell whether another candidate is wanted, and can be finished."""
        if len(self.asked) < self.options.candidates:
            return left is None or not self.asked or pace.fits(left)
        if left is None or not pace.fits(left):
            return False
        best = Turn(candidates=tuple(done)).best
        # Without a timing nothing better can follow a kernel that is right and leaves nothing to PyTorch.
        return not (best and best.verdict.passed and not best.verdict.timing and not best.verdict.in_pytorch)

    def next(self, done: Sequence[Candidate], seeds: int, left: float | None) -> Ask:
        """Choose and note the next request; the first `seeds` of `done` came from elsewhere."""
        number = len(self.asked) + 1 + seeds
        kind, parent = self._choice(done, seeds)
        told = feedback_of(done, parent) if parent else ()
        if self.options.earlier and not parent:
            told = feedback_of([*self.options.earlier, *done])
        request = Request(
            source=self.problem.source,
            entry=self.problem.entry,
            candidate=len(self.options.earlier) + len(self.asked),
            feedback=told,
            seed=self.options.seed or 0,
            seconds=left,
            max_tokens=self.options.max_tokens,
            alone=kind != "candidate" or (self.options.candidates == 1 and not self.asked),
            repeats=self.repeats,
            instructions=self.options.instructions,
            precision=self.options.precision,
        )
        ask = Ask(number, kind, request, parent.number if parent else None)
        self.asked.append(ask)
        return ask

    def _choice(self, done: Sequence[Candidate], seeds: int) -> tuple[Kind, Candidate | None]:
        """Return what to do and the candidate to do it to."""
        if not self.takes_feedback:
            return "candidate", None
        best = min((c for c in done if c.verdict.passed), key=rank, default=None)
        place = len(self.asked)
        if place < self.options.candidates:
            wanted: Kind = AFTER_A_SEED[place % 2] if seeds and best else "candidate"
        else:
            shares = _AFTER if best else _BEFORE
            wanted = shares[(place - self.options.candidates) % len(shares)]
        if wanted == "faster" and best:
            return wanted, best
        failed = self._fixable(done) if wanted != "candidate" else None
        if failed:
            return "fix", failed
        if wanted != "candidate" and best:
            return "faster", best
        return "candidate", None

    def _fixable(self, done: Sequence[Candidate]) -> Candidate | None:
        """Return the failure that came furthest, the newest of equals, unless it was fixed often or is being fixed."""
        under_way = {ask.parent for ask in self.asked}
        open_ = [
            c for c in done
            if c.verdict.outcome == "fail" and c.number not in under_way and self._fixes(c, done) < FIXES
        ]  # fmt: skip
        return max(open_, key=lambda c: (-rank(c)[2], c.number), default=None)

    def _fixes(self, candidate: Candidate, done: Sequence[Candidate]) -> int:
        """Count the fixes in a candidate's lineage."""
        known = {c.number: c for c in done}
        count = 0
        while candidate.parent and candidate.origin.startswith("fix"):
            count += 1
            if candidate.parent not in known:
                break
            candidate = known[candidate.parent]
        return count
