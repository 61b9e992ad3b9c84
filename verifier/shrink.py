"""A problem too large to interpret (or to hold) made small: its integers rewritten together, each try validated.

Pasted code is executed here, in a child process, first on tensors without data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from verifier import literals
from verifier.errors import VerificationError
from verifier.footprint import Footprint, look
from verifier.glance import surely_small
from verifier.limits import ACCEPTABLE, COMFORTABLE, Limits
from verifier.literals import Site
from verifier.problem import Problem
from verifier.scaling import CAPS, SMALLEST, together, under, ways

FAILS, POOR, GOOD = range(3)
FEW = 2
SMALL = 64
SEVERAL = 8
"""Elements that a batch norm must have: of two, it returns their order, and a rounding turns that round."""


@dataclass(frozen=True)
class Shrunk:
    """A problem that fits, how it was made so in words, and the integers that a kernel must be rewritten with too.

    `text` is empty and `problem` the given one when nothing had to be changed.
    """

    problem: Problem
    text: str = ""
    literals: Mapping[int, int] = field(default_factory=dict)
    footprint: Footprint | None = None

    def kernel(self, source: str) -> str:
        """Return a kernel's text as it must be run against the shrunk problem."""
        return literals.rewritten_kernel(source, self.literals, self.problem.source) if self.literals else source


def needs(problem: Problem) -> int:
    """Estimate the bytes of one eager forward at full size, without allocating them."""
    return look(problem.source, problem.entry).bytes


def shrink(
    problem: Problem,
    works: Callable[[Problem], int] = lambda _: GOOD,
    *,
    comfortable: Limits = COMFORTABLE,
    acceptable: Limits = ACCEPTABLE,
    seconds: float = 8.0,
) -> Shrunk:
    """Make a problem small enough; raise VerificationError where it cannot be done.

    `works` runs a try for real and says whether it is GOOD, POOR (it runs and proves little) or FAILS.
    """
    if surely_small(problem.source):
        return Shrunk(problem)
    try:
        original = look(problem.source, problem.entry)
    except (Exception, SystemExit):
        return Shrunk(problem)  # what is wrong with it shows when it is run for real
    if comfortable.excess(original) <= 1:
        return Shrunk(problem, footprint=original)
    deadline = time.process_time() + seconds
    for given_only in (True, False):
        search = _Search(problem, original, works, given_only, comfortable, acceptable, deadline)
        best = search.best()
        if best:
            return _result(search, *best)
    if acceptable.excess(original) <= 1:
        return Shrunk(problem, footprint=original)
    search = _Search(problem, original, works, True, comfortable, acceptable, time.process_time() + seconds)
    best = search.smaller_batch()
    if best:
        return _result(search, *best)
    raise VerificationError(
        "too_large",
        f"the problem needs {original.bytes / 1e9:.1f} GB, too much to run here, and it could not be shrunk",
        "give it smaller sizes in get_inputs() and get_init_inputs()",
    )


def _result(search: _Search, mapping: dict[int, int], new: Footprint) -> Shrunk:
    smaller = replace(search.problem, source=search.source(mapping))
    words = _words(search.problem, search.original, new, mapping)
    kept = {site.value for site in search.held if not site.given}
    copied = {} if search.given_only else {old: to for old, to in mapping.items() if old not in kept}
    return Shrunk(smaller, words, copied, new)


def _words(problem: Problem, old: Footprint, new: Footprint, mapping: dict[int, int]) -> str:
    """Say from what to what: x 16384x8192 -> 16x64."""
    names = [*problem.forward_args, *(f"input {n}" for n in range(len(problem.forward_args), len(old.shapes)))]
    changed = [
        f"{name} {_size(before)} -> {_size(after)}"
        for name, before, after in zip(names, old.shapes, new.shapes, strict=False)
        if before != after
    ]
    return ", ".join(changed) or ", ".join(f"{before} -> {after}" for before, after in mapping.items())


def _size(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


Found = tuple[dict[int, int], Footprint]


class _Search:
    """Tries rewritten texts in one scope, each at most once, until one fits or the time is over."""

    def __init__(
        self,
        problem: Problem,
        original: Footprint,
        works: Callable[[Problem], int],
        given_only: bool,
        comfortable: Limits,
        acceptable: Limits,
        deadline: float,
    ) -> None:
        self.problem, self.original, self.works, self.given_only = problem, original, works, given_only
        self.comfortable, self.acceptable, self.deadline = comfortable, acceptable, deadline
        self.sites, self.floor = literals.sites(problem.source), CAPS[-1]
        self.values = sorted({s.value for s in self.sites if s.value >= SMALLEST and (s.given or not given_only)})
        self.seen: dict[str, Footprint | None] = {}
        self.held: dict[Site, int] = {}  # what becomes of single places, whatever becomes of their value
        self._shorten()

    def _shorten(self) -> None:
        """Make few of what only get_inputs counts, such as images: that is the gentlest of all."""
        counts = {s: FEW for s in literals.of_inputs(self.problem.source) if 2 * FEW <= s.value < SMALLEST}
        if counts and self._like(counts):
            self.held.update(counts)

    def best(self) -> Found | None:
        """Return the gentlest rewriting that fits and is worth running, else the best that runs at all."""
        second: Found | None = None
        for found in self._candidates() if self.values else ():
            if self.acceptable.excess(found[1]) > 1:
                continue
            worth = self.works(replace(self.problem, source=self.source(found[0])))
            if worth == GOOD:
                return found
            if worth == POOR and second is None:
                second = found
            if time.process_time() > self.deadline:
                break
        return second

    def smaller_batch(self) -> Found | None:
        """Return the given sizes with small counts halved too: an image network may allow nothing but its batch."""
        self.values, self.floor = sorted({s.value for s in self.sites if s.given and s.value > 1}), 1
        self.comfortable = self.acceptable  # no further than needed: what has few rows of three channels tells little
        found = self._one_by_one(({}, self.original))
        fits = found[0] and self.acceptable.excess(found[1]) <= 1
        return found if fits and self.works(replace(self.problem, source=self.source(found[0]))) else None

    def _candidates(self) -> Iterator[Found]:
        """Yield what fits, gentlest first; then what does not, smallest first."""
        caps = [cap for cap in CAPS if cap < self.values[-1]]
        low, high = 0, len(caps)
        tried: list[Found] = []
        while low < high:
            middle = (low + high) // 2
            found = self._at(caps[middle])
            tried += found
            if found and not any(map(self._fits, found)):
                low = middle + 1
            else:  # it fits, or it is too small for the module to run at all
                high = middle
        fitting = [f for cap in caps[high : high + 3] for f in self._at(cap) if self._fits(f)]
        fitting.sort(key=lambda one: self._recounted(one[1]))
        yield from map(self._grown, fitting[:1])
        yield from fitting
        rest = sorted(tried, key=lambda found: self.comfortable.excess(found[1]))
        yield from map(self._one_by_one, rest[:1] if not fitting else [])
        yield from rest

    def _at(self, cap: int) -> list[Found]:
        """Return the ways to bring all sizes under a cap that run on tensors without data."""
        found = []
        for mapping in [*ways(self.values, cap), *self._inside(cap)]:
            got = self._look(mapping)
            if got is not None and not got.is_like(self.original) and self._hold(mapping):
                got = self._look(mapping)
            if got is not None and got.is_like(self.original):
                found.append((mapping, got))
        return sorted(found, key=lambda one: self._recounted(one[1]))

    def _recounted(self, found: Footprint) -> int:
        return found.recounted(self.original)

    def _inside(self, cap: int) -> list[dict[int, int]]:
        """Return ways to halve the classes' own widths together: with images of a usual small size, and as they are."""
        given = {site.value for site in self.sites if site.given}
        own = [value for value in self.values if value not in given]
        if self.given_only or not own or own[-1] <= cap:
            return []
        widths = together(own, cap, floor=FEW)
        return [{**widths, **{value: under(value, SMALL) for value in given if value > SMALL}}, widths]

    def _hold(self, mapping: dict[int, int]) -> bool:
        """Keep the places whose numbers count layers or steps: a text written out for them fits no other number."""
        held = len(self.held)
        places = [s for s in self.sites if s.value in mapping and (s.given or not self.given_only)]
        for site in sorted(set(places) - set(self.held), key=lambda place: place.value):
            alone = self._look({site: mapping[site.value]})
            if alone is not None and not alone.is_like(self.original):
                self.held[site] = site.value
                if not site.given:  # a kernel's own copy is rewritten by value: all of them stay, or none
                    self.held.update({s: s.value for s in self.sites if s.value == site.value and not s.given})
        return len(self.held) > held

    def _grown(self, found: Found) -> Found:
        """Let the smallest sizes grow again while it fits: 16x16x3x3 tells less than 8x8x12x12."""
        refused: set[int] = set()
        until = min(self.deadline, time.process_time() + 0.25)
        while time.process_time() < until:
            small = sorted((new, -old, old) for old, new in found[0].items() if old not in refused and new < old)
            if not small or small[0][0] >= 64:
                break
            new, _, old = small[0]
            bigger = {**found[0], old: min(old, 2 * new)}
            got = self._like(bigger) if bigger[old] not in found[0].values() else None
            if got is not None and self._fits((bigger, got)) and self._recounted(got) <= self._recounted(found[1]):
                found = bigger, got
            else:
                refused.add(old)
        return found

    def _one_by_one(self, best: Found) -> Found:
        """Halve single values, largest first, as long as it helps."""
        improved = True
        while improved and not self._fits(best) and time.process_time() < self.deadline:
            improved = False
            for now, value in sorted(((best[0].get(v, v), v) for v in self.values), reverse=True):
                mapping = {**best[0], value: now // 2}
                got = self._like(mapping) if now // 2 >= self.floor else None
                if got is not None and self.comfortable.excess(got) < self.comfortable.excess(best[1]):
                    best, improved = (mapping, got), True
                    break
        return best

    def _fits(self, found: Found) -> bool:
        return self.comfortable.excess(found[1]) <= 1

    def source(self, mapping: Mapping[Any, int]) -> str:
        """Return the problem's text with other numbers."""
        both: dict[Any, int] = {**self.held, **mapping}
        return literals.rewritten(self.problem.source, both, given_only=self.given_only)

    def _like(self, mapping: Mapping[Any, int]) -> Footprint | None:
        """Return what a rewritten text needs, or None if it does not run, or is another network."""
        got = self._look(mapping)
        return got if got is not None and got.is_like(self.original) else None

    def _look(self, mapping: Mapping[Any, int]) -> Footprint | None:
        """Return what a rewritten text needs, or None if it does not run, or averages over next to nothing."""
        source = self.source(mapping)
        if time.process_time() > self.deadline:
            return None
        if source not in self.seen:
            try:
                got = look(source, self.problem.entry, self.original.shadow)
                self.seen[source] = got if got.averaged >= min(SEVERAL, self.original.averaged) else None
            except (Exception, SystemExit):
                self.seen[source] = None
        return self.seen[source]
