"""Sizes in forward's statements, read off the nearest tensor that has them instead of computed from the inputs'.

A block can then stand anywhere, and an input is not kept for its shape alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache

from backends.compiler.ir import Size, Value
from backends.compiler.script import Line, tokens_in
from backends.compiler.sizetext import NoName

DONE = re.compile(r"\.shape<(\d+)>")
"""A size that has been found; in angle brackets it is not looked for again."""
BRACKETED = re.compile(r"(?<![\w\])])\((\w+\.shape\[\d+\])\)")


def nearest(
    lines: list[Line], values: Mapping[str, Value], size_text: Callable[[Size], str], reads: re.Pattern[str]
) -> list[Line]:
    """Rewrite the sizes of all lines; `values` gives the shapes of tokens and arguments."""
    lengths = {name: _lengths(value, size_text) for name, value in values.items()}
    every = tuple(sorted({text for texts in lengths.values() for text in texts if text}))
    if not every:
        return lines
    near = [[*tokens_in(_pattern(every).sub("", line.text), reads), *line.results] for line in lines]

    def rewritten(index: int, line: Line) -> Line:
        text = line.text
        for names in _around(lines, near, index):
            text = _read_off(text, names, lengths)
        return replace(line, text=BRACKETED.sub(r"\1", DONE.sub(r".shape[\1]", text)))

    return [rewritten(index, line) if _pattern(every).search(line.text) else line for index, line in enumerate(lines)]


def _around(lines: list[Line], near: list[list[str]], index: int) -> list[list[str]]:
    """Name the tensors near a line, in circles: those of the same block, of the block around it, and so on.

    In each, what the line itself reads comes first, then what was made or read before, the latest first.
    """
    calls, circles = lines[index].calls, []
    own = [name for name in near[index] if name not in lines[index].results]
    for depth in range(len(calls), -1, -1):
        before = [near[at] for at in range(index - 1, -1, -1) if lines[at].calls[:depth] == calls[:depth]]
        circles.append(list(dict.fromkeys([*own, *(name for names in before for name in reversed(names))])))
    return circles


def _read_off(text: str, names: list[str], lengths: Mapping[str, list[str]]) -> str:
    """Write the sizes in a text that these tensors have; all of them by one tensor where there is one."""
    known = tuple(sorted({size for name in names for size in lengths.get(name, ()) if size}))
    if not known:
        return text
    wanted = set(_pattern(known).findall(text))
    there = [name for name in names if name in lengths]
    there.sort(key=lambda name: not wanted <= set(lengths[name]))

    def read(match: re.Match[str]) -> str:
        name = next(name for name in there if match[0] in lengths[name])
        return f"{name}.shape<{lengths[name].index(match[0])}>"

    return _pattern(known).sub(read, text)


def _lengths(value: Value, size_text: Callable[[Size], str]) -> list[str]:
    """Write a tensor's sizes over the inputs' shapes; "" for a number, or what no input gives."""
    texts = []
    for size in value.shape:
        text = ""
        with suppress(NoName):
            text = size_text(size)
        texts.append(text if "shape" in text else "")
    return texts


@cache
def _pattern(sizes: tuple[str, ...]) -> re.Pattern[str]:
    """Find sizes where they are an operand or an argument: a sum only between brackets or commas."""
    parts = []
    for text in sorted(sizes, key=lambda text: (-len(text), text)):
        escaped = re.escape(text)
        if " " in text:
            parts.append(rf"(?:(?<=[(\[])|(?<=, )){escaped}(?=[,)\]])")
        else:
            parts.append(rf"(?<![\w.]){escaped}(?!\w)")
    return re.compile("|".join(parts))
