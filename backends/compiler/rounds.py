"""What the rounds of a repeated run of statements have in common: how each thing that they read comes from round to
round."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from backends.compiler.script import Line

WORDS = re.compile(r""""[^"]*"|'[^']*'|\d[\d.]*[eE][-+]?\d+|(?P<integer>(?<![\w.])\d+(?![\w.]))""")
"""Quoted text and numbers with exponents, whose digits count nothing, and whole numbers."""

How = Literal["same", "made", "carried"]


@dataclass(frozen=True)
class Shape:
    """A statement taken apart: what is left of it without tensors and whole numbers, and both of these in order."""

    skeleton: str
    reads: tuple[str, ...]
    numbers: tuple[int, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Rounds:
    """How many rounds agree, how each tensor is read (and which result it is), by how much each number grows."""

    count: int
    reads: tuple[tuple[How, int], ...]
    steps: tuple[int, ...]


def shape(line: Line, reads: re.Pattern[str]) -> Shape:
    """Take a statement apart."""
    bare = reads.sub("@", line.text)
    found = tuple(match[0] for match in reads.finditer(line.text))
    numbers = tuple(int(found["integer"]) for found in WORDS.finditer(bare) if found["integer"])
    skeleton = WORDS.sub(lambda found: "#" if found["integer"] else found[0], bare)
    blanks = ",".join("_" if result == "_" else "@" for result in line.results)
    return Shape(f"{blanks}={skeleton}", found, numbers, line.results)


def agreeing(shapes: Sequence[Shape], first: int, period: int) -> Rounds | None:
    """Find how many rounds from `first` on can be one loop; None where not even two can."""
    rounds = [_Round(shapes[first : first + period]), _Round(shapes[first + period : first + 2 * period])]
    reads = tuple(_how(rounds[0], rounds[1], at) for at in range(len(rounds[0].reads)))
    if None in reads:
        return None
    steps = tuple(two - one for one, two in zip(rounds[0].numbers, rounds[1].numbers, strict=True))
    if len({step for step in steps if step}) > 1 or any(step < 0 for step in steps):
        return None
    known = tuple(read for read in reads if read is not None)
    while _goes_on(shapes[first + len(rounds) * period :][:period], rounds, period, known, steps):
        at = first + len(rounds) * period
        rounds.append(_Round(shapes[at : at + period]))
    return Rounds(len(rounds), known, steps)


class _Round:
    """One round's tensors read, numbers and results, each in order."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self.skeletons = [found.skeleton for found in shapes]
        self.reads = [token for found in shapes for token in found.reads]
        self.numbers = [number for found in shapes for number in found.numbers]
        self.made = [token for found in shapes for token in found.results]


def _how(one: _Round, two: _Round, at: int) -> tuple[How, int] | None:
    """Tell where what two rounds read at one place comes from."""
    token, following = one.reads[at], two.reads[at]
    if token in one.made:
        number = one.made.index(token)
        return ("made", number) if two.made[number] == following else None
    if token == following:
        return "same", 0
    return ("carried", one.made.index(following)) if following in one.made else None


def _goes_on(
    shapes: Sequence[Shape], rounds: list[_Round], period: int, reads: Sequence[tuple[How, int]], steps: Sequence[int]
) -> bool:
    """Tell whether the next round does as the ones before."""
    if len(shapes) < period or [found.skeleton for found in shapes] != rounds[0].skeletons:
        return False
    first, before, now = rounds[0], rounds[-1], _Round(shapes)
    wanted = [number + step * len(rounds) for number, step in zip(first.numbers, steps, strict=True)]
    sources = {"same": first.reads, "made": now.made, "carried": before.made}
    places = [(at, at if how == "same" else number, sources[how]) for at, (how, number) in enumerate(reads)]
    return now.numbers == wanted and all(now.reads[at] == source[number] for at, number, source in places)
