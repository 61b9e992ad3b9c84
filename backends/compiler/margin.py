"""Emitted text that keeps to the margin: statements, comments, parameter lists and docstrings broken where
a person would break them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from textwrap import wrap

TAB = "    "
WIDTH = 100
BINARY = re.compile(r" (?:[-+*/|&]|//|and|or) ")


def fill(items: Sequence[str], margin: str = TAB) -> list[str]:
    """Put comma-separated items on lines, as many on each as fit; every line ends with a comma."""
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(item) + 2 <= WIDTH:
            lines[-1] += f" {item},"
        elif len(margin) + len(item) + 1 <= WIDTH:
            lines.append(f"{margin}{item},")
        else:
            broken = fitted(margin + item)
            lines += [*broken[:-1], broken[-1] + ","]
    return lines


def fit(lines: Sequence[str], margin: str = "") -> list[str]:
    """Indent lines and break those that pass the margin."""
    return [part for line in lines for part in fitted(margin + line if line else "")]


def fitted(line: str) -> list[str]:
    """Break one line of Python: the comment first, then the brackets that hold most, then the operators."""
    text = line.lstrip()
    margin = line[: len(line) - len(text)]
    if len(line) <= WIDTH:
        return [line]
    if text.startswith("# "):
        return [f"{margin}# {part}" for part in wrap(text[2:], WIDTH - len(margin) - 2)]
    code, mark, comment = text.partition("  # ")
    if mark and '"' not in comment:
        return [*fitted(f"{margin}# {comment}"), *fitted(margin + code)]
    opening, closing = _widest_brackets(text)
    if closing - opening < 2:
        return _by_operators(margin, text)
    head, inside, rest = text[: opening + 1], text[opening + 1 : closing], text[closing:]
    items = _items(inside)
    within = fill(items, margin + TAB) if len(items) > 1 else fitted(margin + TAB + inside)
    if len(within) == 1:
        within = [within[0].removesuffix(",")]
    return [margin + head, *within, *fitted(margin + rest)]


def _by_operators(margin: str, text: str) -> list[str]:
    """Give each operand of the outermost operator its line, in brackets."""
    name, mark, value = text.partition(" = ")
    operators = [match for match in BINARY.finditer(value) if _depth(value, match.start()) == 0]
    if not mark or not operators:
        return [margin + text]
    cuts = [0, *(match.start() + 1 for match in operators), len(value)]
    parts = [value[one:other].rstrip() for one, other in pairwise(cuts)]
    return [f"{margin}{name} = (", *(f"{margin}{TAB}{part}" for part in parts), f"{margin})"]


def _scan(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield what stands outside of strings with its place and the number of brackets around it."""
    depth, quote = 0, ""
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
            continue
        if character in "\"'":
            quote = character
            continue
        depth -= character in ")]}"
        yield index, character, depth
        depth += character in "([{"


def _depth(text: str, place: int) -> int:
    return next((depth for index, _, depth in _scan(text) if index == place), 1)


def _widest_brackets(text: str) -> tuple[int, int]:
    """Find the outermost round brackets that hold most."""
    best, opened = (0, 0), 0
    for index, character, depth in _scan(text):
        if depth == 0 and character == "(":
            opened = index
        if depth == 0 and character == ")" and index - opened > best[1] - best[0]:
            best = (opened, index)
    return best


def _items(inside: str) -> list[str]:
    """Split at the commas outside of brackets and strings."""
    cuts = [-1, *(index for index, character, depth in _scan(inside) if character == "," and depth == 0), len(inside)]
    items = [inside[one + 1 : other].strip() for one, other in pairwise(cuts)]
    return [item for item in items if item]


def launch(kernel: str, grid: str, groups: Sequence[Sequence[str]]) -> list[str]:
    """Write the launch of a kernel, the grid on a line of its own where the call would be too long."""
    named = [f"grid = {grid}"] if len(f"{TAB}{kernel}[{grid}](") > WIDTH else []
    return [*named, *listed(f"{kernel}[{'grid' if named else grid}](", groups, ")")]


def listed(opening: str, groups: Sequence[Sequence[str]], closing: str) -> list[str]:
    """Write a call or a list of parameters: on one line, or each group of arguments on lines of its own."""
    flat = f"{opening}{', '.join(item for group in groups for item in group)}{closing}"
    if len(flat) + len(TAB) <= WIDTH:
        return [flat]
    return [opening, *(line for group in groups for line in fill(group)), closing]


def quoted(summary: str, lines: Sequence[str] = ()) -> list[str]:
    """Write a docstring: the summary, and under it the user's lines."""
    first, *more = _wrapped(_plain(summary[:1].upper() + summary[1:]), '"""')
    if not lines and not more:
        return [f'{TAB}"""{first}"""']
    text = [f'{TAB}"""{first}', *(TAB + line for line in more)]
    if lines:
        text += ["", f"{TAB}From:"]
    for line in lines:
        wrapped = wrap(_plain(line), WIDTH - 2 * len(TAB), subsequent_indent=TAB, break_long_words=False)
        text += [2 * TAB + part for part in wrapped]
    return [*text, f'{TAB}"""']


def _wrapped(text: str, mark: str) -> list[str]:
    return wrap(text, WIDTH - len(TAB) - 2 * len(mark)) or [""]


def _plain(text: str) -> str:
    """Keep a docstring a docstring whatever the user wrote."""
    return text.replace("\\", "\\\\").replace('"""', "'''")


def jit(name: str, groups: Sequence[Sequence[str]], doc: Sequence[str], lines: Sequence[str]) -> str:
    """Write a kernel: a group of parameters a line, docstring, body."""
    parameters = [line for group in groups for line in fill(group)]
    body = fit(lines, TAB)
    return "\n".join(["@triton.jit", f"def {name}(", *parameters, "):", *doc, *body]) + "\n"


def function(name: str, parameters: Sequence[str], doc: Sequence[str], lines: Sequence[str]) -> str:
    """Write a launcher."""
    return "\n".join([*listed(f"def {name}(", [parameters], "):"), *doc, *fit(lines, TAB)]) + "\n"
