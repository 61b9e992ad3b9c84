"""Sizes brought under a cap without losing what they are to each other: odd factors, differences, ratios."""

from __future__ import annotations

from collections.abc import Iterator

SMALLEST = 16  # integers below are counts (heads, kernel sizes, layers), not sizes
CLOSE = 4
CAPS = (65536, 16384, 8192, 4096, 2048, 1024, 512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4)


def ways(values: list[int], cap: int) -> Iterator[dict[int, int]]:
    """Yield maps of the values that exceed a cap, best first.

    First every size stays different from the others (equal ones would hide a transposition), then plain halving,
    then sizes that are small multiples of each other by the same power of two, then all of them.
    """
    plain = {value: under(value, cap) for value in values}
    seen = []
    for way in (_different(plain), plain, _in_ratio(values, cap), together(values, cap)):
        changed = {old: new for old, new in way.items() if old != new}
        if changed and changed not in seen:
            seen.append(changed)
            yield changed


def under(value: int, cap: int) -> int:
    """Halve a size until it is under the cap; odd factors (heads, groups) are kept as long as possible."""
    if value <= cap:
        return value
    while value > cap and value % 2 == 0:
        value //= 2
    if value > cap:  # odd: stays odd
        value = max(3, cap - 1 + cap % 2)
    elif value < cap // 4:
        value *= max(1, cap // 4 // value)
    return value


def _different(plain: dict[int, int]) -> dict[int, int]:
    """Move sizes that became equal apart, in steps of a quarter, so that they still divide by what quarters do."""
    taken: set[int] = {new for old, new in plain.items() if old == new}
    result = dict(plain)
    for old, new in plain.items():
        if old == new:
            continue
        quarter = max(1, new // 4) if new % 4 == 0 else new
        choices = [new, *(new - quarter * n for n in (1, 2)), *(new + quarter * n for n in (1, 2, 3))]
        result[old] = next((choice for choice in choices if choice not in taken and choice > 1), new)
        taken.add(result[old])
    return result


def _in_ratio(values: list[int], cap: int) -> dict[int, int]:
    """Halve the members of each chain of small multiples together: four blocks of 64 stay four blocks."""
    chains: list[list[int]] = []
    for value in sorted(values):
        last = chains[-1][-1] if chains else value
        if chains and value % last == 0 and value // last <= CLOSE:
            chains[-1].append(value)
        else:
            chains.append([value])
    return {old: new for chain in chains for old, new in together(chain, cap, floor=2).items()}


def together(values: list[int], cap: int, floor: int = CAPS[-1]) -> dict[int, int]:
    """Halve all values as often, until the largest is under the cap."""
    halvings = 0
    while max(values) >> halvings > cap:
        halvings += 1
    return {value: _halved(value, halvings, floor) for value in values}


def _halved(value: int, halvings: int, floor: int) -> int:
    while halvings > 0 and value % 2 == 0 and value // 2 >= floor:
        value, halvings = value // 2, halvings - 1
    if halvings > 0 and value > SMALLEST:
        value = max(floor, value >> halvings) | 1
    return value
