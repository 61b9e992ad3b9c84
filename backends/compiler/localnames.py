"""Names for the tensors of forward, or of a function: the user's own, taken again as soon as nobody reads the old one.

So a file reads `x = relu(x)` where the user wrote it so, and a tensor is freed when it is not needed any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from backends.compiler.naming import OTHER_WORDS, identifier
from backends.compiler.script import TOKEN, Line, Loop, Step, loop_variables, tokens_in


def local_names(
    steps: Iterable[Step],
    wishes: Mapping[str, tuple[str, ...]],
    taken: set[str],
    given: Iterable[str],
    reads: re.Pattern[str],
) -> dict[str, str]:
    """Name every token that steps make; `given` are the tokens and arguments that are there before."""
    steps = list(steps)
    taken = taken | loop_variables(steps)
    last = _last_reads(steps, reads)
    names: dict[str, str] = {}
    held: dict[str, float] = {}  # name → the place after which it is free

    def take(token: str, place: float) -> None:
        free = [name for name in _candidates(wishes[token]) if name not in taken and held.get(name, -1) <= place]
        names[token] = free[0] if free else _numbered(_candidates(wishes[token])[-1], taken, held, place)
        held[names[token]] = max(last.get(token, -1), place + 0.5)

    for token in given:
        if TOKEN.fullmatch(token):
            take(token, -1)
        else:
            held[token] = last.get(token, -1)
    for place, line in enumerate(_flat(steps)):
        for result in line.results:
            if result == "_" or result in names:
                continue
            same = names.get(line.text, line.text)
            if same in held and held[same] <= place:  # what a loop starts with, and nobody else needs: no new name
                names[result], held[same] = same, max(last.get(result, -1), place + 0.5)
            else:
                take(result, place)
    return names


def _flat(steps: Iterable[Step]) -> list[Line]:
    return [line for step in steps for line in (step.body if isinstance(step, Loop) else (step,))]


def _last_reads(steps: Iterable[Step], reads: re.Pattern[str]) -> dict[str, int]:
    """Find where each tensor is read last; what a loop takes from before it is read until its end."""
    last: dict[str, int] = {}
    place = 0
    for step in steps:
        lines = _flat([step])
        end = place + len(lines) - 1
        made = {result for line in lines for result in line.results} if isinstance(step, Loop) else set()
        carried = set(step.carried) if isinstance(step, Loop) else set()
        for line in lines:
            for token in tokens_in(line.text, reads):
                last[token] = end if isinstance(step, Loop) and (token not in made or token in carried) else place
            place += 1
        for token in carried:
            last[token] = max(last.get(token, -1), end)
    return last


def _candidates(wishes: tuple[str, ...]) -> list[str]:
    return [identifier(OTHER_WORDS.get(wish, wish)) for wish in wishes]


def _numbered(base: str, taken: set[str], held: Mapping[str, float], place: float) -> str:
    number = 2
    while f"{base}_{number}" in taken or held.get(f"{base}_{number}", -1) > place:
        number += 1
    return f"{base}_{number}"
