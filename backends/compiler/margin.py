"""Emitted functions, one line a statement: the formatter breaks code; comments and docstrings are wrapped here."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

TAB = "    "
WIDTH = 88
"""The margin of `ruff format` without configuration."""


def fit(lines: Sequence[str], margin: str = "") -> list[str]:
    """Indent lines; comments keep to the margin."""
    return [part for line in lines for part in (_commented(margin + line) if line else [""])]


def _commented(line: str) -> list[str]:
    """Wrap a line that is a comment; put one that stands too far right above its line."""
    text = line.lstrip()
    margin = line[: len(line) - len(text)]
    if len(line) <= WIDTH:
        return [line]
    if text.startswith("# "):
        return [f"{margin}# {part}" for part in wrap(text[2:], WIDTH - len(margin) - 2)]
    code, mark, comment = text.partition("  # ")
    if mark and '"' not in comment:
        return [*_commented(f"{margin}# {comment}"), margin + code]
    return [line]


def launch(kernel: str, grid: str, groups: Sequence[Sequence[str]]) -> list[str]:
    """Write the launch of a kernel, the grid on a line of its own where the call would be too long."""
    named = [f"grid = {grid}"] if len(f"{TAB}{kernel}[{grid}](") > WIDTH else []
    return [*named, f"{kernel}[{'grid' if named else grid}]({_flat(groups)})"]


def _flat(groups: Sequence[Sequence[str]]) -> str:
    return ", ".join(item for group in groups for item in group)


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
    """Write a kernel: its parameters, docstring, body."""
    return "\n".join(["@triton.jit", f"def {name}({_flat(groups)}):", *doc, *fit(lines, TAB)]) + "\n"


def function(name: str, parameters: Sequence[str], doc: Sequence[str], lines: Sequence[str]) -> str:
    """Write a launcher."""
    return "\n".join([f"def {name}({_flat([parameters])}):", *doc, *fit(lines, TAB)]) + "\n"
