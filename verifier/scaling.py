"""Sizes brought under a cap without losing what they are to each other: odd factors, differences, ratios."""

from __future__ import annotations

from collections.abc import Iterator

SMALLEST = 16  # integers below are counts (heads, kernel sizes, layers), not sizes
CAPS = (65536, 16384, 8192, 4096, 2048, 1024, 512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4)


def ways(values: list[int], cap: int) -> Iterator[dict[int, int]]:
    """Yield maps of the values that exceed a cap, best first.

    First every size stays different from the others (equal ones would hide a transposition), then plain halving,
    then all sizes by the same power of two (one may have to be the double of another).
    """
    plain = {value: under(value, cap) for value in values}
    seen = []
    for way in (_different(plain), plain, _together(values, cap)):
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


def _together(values: list[int], cap: int) -> dict[int, int]:
    halvings = 0
    while max(values) >> halvings > cap:
        halvings += 1
    return {value: _halved(value, halvings) for value in values}


def _halved(value: int, halvings: int) -> int:
    while halvings > 0 and value % 2 == 0 and value // 2 >= CAPS[-1]:
        value, halvings = value // 2, halvings - 1
    if halvings > 0 and value > SMALLEST:
        value = max(CAPS[-1], value >> halvings) | 1
    return value
