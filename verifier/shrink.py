"""A problem too large to interpret (or to hold) made small: its integers rewritten together, each try validated.

Pasted code is executed here, in a child process, first on tensors without data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from verifier import literals
from verifier.errors import VerificationError, one_line
from verifier.footprint import Footprint, look
from verifier.problem import Problem

SMALLEST = 16  # integers below are counts (heads, kernel sizes, layers), not sizes
FLOORS = (16, 8, 4)


@dataclass(frozen=True)
class Limits:
    """What one run may cost. The interpreter takes about 0.6 ms a program, 2 ms a row, 2.8 ms a 32x32x32 product."""

    held: int = 2_000_000
    largest: int = 100_000
    produced: int = 2_000_000
    rows: int = 1024
    products: int = 2**22
    convolved: int = 2**25

    def excess(self, print_: Footprint) -> float:
        """Return by which factor the worst limit is exceeded; at most 1 means it fits."""
        return max(getattr(print_, name) / getattr(self, name) for name in self.__dataclass_fields__)


COMFORTABLE = Limits()
ACCEPTABLE = Limits(held=30_000_000, largest=3_000_000, produced=60_000_000, rows=20_000, products=2**29, convolved=2**32)
"""Beyond this a run on the processor takes many seconds even where PyTorch does the work."""


@dataclass(frozen=True)
class Shrunk:
    """A problem that fits, how it was made so in words, and the integers that a kernel must be rewritten with too.

    `text` is empty and `problem` the given one when nothing had to be changed.
    """

    problem: Problem
    text: str = ""
    literals: Mapping[int, int] = field(default_factory=dict)
    footprint: Footprint | None = None


def needs(problem: Problem) -> int:
    """Estimate the bytes of one eager forward at full size, without allocating them."""
    return look(problem.source, problem.entry).bytes


def shrink(
    problem: Problem,
    works: Callable[[Problem], bool] = lambda _: True,
    *,
    limits: Limits = COMFORTABLE,
    acceptable: Limits = ACCEPTABLE,
    seconds: float = 5.0,
) -> Shrunk:
    """Make a problem small enough; `works` runs a try for real. Raise VerificationError where it cannot be done."""
    search = _Search(problem, works, limits, time.monotonic() + seconds)
    original = search.look({}, given_only=True)
    if original is None:
        return Shrunk(problem)  # what is wrong shows when it is run for real
    if limits.excess(original) <= 1:
        return Shrunk(problem, footprint=original)
    best: tuple[dict[int, int], bool, Footprint] | None = None
    for given_only in (True, False):
        found = search.smallest_change(given_only)
        if found and (best is None or limits.excess(found[1]) < limits.excess(best[2])):
            best = found[0], given_only, found[1]
        if best and limits.excess(best[2]) <= 1:
            break
    if best and acceptable.excess(best[2]) <= 1 and limits.excess(best[2]) < limits.excess(original):
        return _result(problem, original, *best)
    if acceptable.excess(original) <= 1:
        return Shrunk(problem, footprint=original)
    raise VerificationError(
        "too_large", f"the problem needs {original.bytes / 1e9:.1f} GB and could not be made smaller",
        "give it smaller sizes in get_inputs() and get_init_inputs()",
    )


def _result(problem: Problem, original: Footprint, mapping: dict[int, int], given_only: bool, new: Footprint) -> Shrunk:
    smaller = replace(problem, source=literals.rewritten(problem.source, mapping, given_only=given_only))
    return Shrunk(smaller, _words(problem, original, new, mapping), {} if given_only else mapping, new)


def _words(problem: Problem, old: Footprint, new: Footprint, mapping: dict[int, int]) -> str:
    """Say from what to what: x 16384x8192 -> 16x64."""
    names = [*problem.forward_args, *(f"input {n}" for n in range(len(problem.forward_args), len(old.shapes)))]
    size = lambda shape: "x".join(map(str, shape)) or "scalar"  # noqa: E731
    changed = [
        f"{name} {size(before)} -> {size(after)}"
        for name, before, after in zip(names, old.shapes, new.shapes, strict=False)
        if before != after
    ]
    return ", ".join(changed) or ", ".join(f"{before} -> {after}" for before, after in mapping.items() if before != after)


class _Search:
    """Tries rewritten texts, each at most once, until the time is over."""

    def __init__(self, problem: Problem, works: Callable[[Problem], bool], limits: Limits, deadline: float) -> None:
        self.problem, self.works, self.limits, self.deadline = problem, works, limits, deadline
        self.sites = literals.sites(problem.source)
        self.seen: dict[str, Footprint | None] = {}
        self.last_error = ""

    def look(self, mapping: dict[int, int], *, given_only: bool) -> Footprint | None:
        """Return what a rewritten text needs, or None if it does not run."""
        source = literals.rewritten(self.problem.source, mapping, given_only=given_only)
        if source not in self.seen:
            try:
                self.seen[source] = look(source, self.problem.entry)
            except (Exception, SystemExit) as error:
                self.last_error = one_line(error)
                self.seen[source] = None
        return self.seen[source]

    def smallest_change(self, given_only: bool) -> tuple[dict[int, int], Footprint] | None:
        """Return the gentlest scaling that fits and works, or else the smallest that works."""
        values = sorted({s.value for s in self.sites if s.value >= SMALLEST and (s.given or not given_only)})
        best: tuple[dict[int, int], Footprint] | None = None
        for floor in FLOORS:
            for mapping in self._joint(values, floor, given_only):
                best = self._better(best, mapping, given_only)
            if best and self._fits(best[1]):
                return best
        return self._one_by_one(best, values, given_only)

    def _joint(self, values: list[int], floor: int, given_only: bool) -> Iterator[dict[int, int]]:
        """Yield scalings of all sizes by one power of two: the gentlest that fits, found by halving the range."""
        steps = _distinct([{v: scaled(v, k, floor) for v in values} for k in range(1, 41)])
        low, high = 0, len(steps) - 1
        if high < 0:
            return
        last = self.look(steps[high], given_only=given_only)
        if last is None:  # the smallest does not run: look for one that does, from the gentle end
            yield from steps[:-1]
            return
        if not self._fits(last):
            yield steps[high]
            return
        while low < high:
            middle = (low + high) // 2
            got = self.look(steps[middle], given_only=given_only)
            if got is not None and self._fits(got):
                high = middle
            else:
                low = middle + 1
        yield from steps[high:]  # the gentlest that fits; the next ones if it does not work for real

    def _better(
        self, best: tuple[dict[int, int], Footprint] | None, mapping: dict[int, int], given_only: bool
    ) -> tuple[dict[int, int], Footprint] | None:
        if time.monotonic() > self.deadline or (best and self._fits(best[1])):
            return best
        got = self.look(mapping, given_only=given_only)
        if got is None or (best and self.limits.excess(got) >= self.limits.excess(best[1])):
            return best
        small_enough = ACCEPTABLE.excess(got) <= 1
        source = literals.rewritten(self.problem.source, mapping, given_only=given_only)
        if not small_enough or not self.works(replace(self.problem, source=source)):
            return best
        return mapping, got

    def _one_by_one(
        self, best: tuple[dict[int, int], Footprint] | None, values: list[int], given_only: bool
    ) -> tuple[dict[int, int], Footprint] | None:
        """Halve single values, largest first, as long as it helps."""
        improved = True
        while improved and time.monotonic() < self.deadline and not (best and self._fits(best[1])):
            improved = False
            current = best[0] if best else {}
            for value in sorted(values, key=lambda v: -current.get(v, v)):
                now = current.get(value, value)
                if now // 2 < FLOORS[-1]:
                    continue
                tried = self._better(best, {**current, value: now // 2}, given_only)
                if tried is not best:
                    best, improved = tried, True
                    break
        return best

    def _fits(self, found: Footprint) -> bool:
        return self.limits.excess(found) <= 1


def scaled(value: int, halvings: int, floor: int) -> int:
    """Halve a size without losing its odd factors (divisibility by heads or groups); an odd one stays odd."""
    while halvings > 0 and value % 2 == 0 and value // 2 >= floor:
        value, halvings = value // 2, halvings - 1
    if halvings > 0 and value > 4 * floor:
        value = max(floor, value >> halvings) | 1
    return value


def _distinct(steps: list[dict[int, int]]) -> list[dict[int, int]]:
    found: list[dict[int, int]] = []
    for step in steps:
        changed = {old: new for old, new in step.items() if old != new}
        if changed and changed not in found:
            found.append(changed)
    return found
