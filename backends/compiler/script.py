"""forward before its tensors have names: a list of statements over tokens, each with the module calls it lies in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from backends.compiler.ir import Op, Pointwise, Value

Call = tuple[str, str]
"""A module call: its path, with a number behind @ where the module is called again, and the class's name."""

TOKEN = re.compile(r"__t\d+__")
"""Stands for a tensor in a statement's text."""
MODULE = "__m__"
"""Stands for the module that a function of the file is called with."""


@dataclass(frozen=True)
class Line:
    """A statement: `results` are tokens, or "_" for what nobody reads; `text` is all there is where it has none."""

    text: str
    results: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()

    @property
    def row(self) -> str:
        """The statement in one row."""
        return f"{', '.join(self.results)} = {self.text}" if self.results else self.text


@dataclass(frozen=True)
class Loop:
    """Statements that run once for each of `over`; `carried` are the tokens that one round leaves to the next."""

    variable: str
    over: str
    body: tuple[Line, ...]
    carried: tuple[str, ...] = ()


Step = Line | Loop


@dataclass(frozen=True)
class Function:
    """Statements that several places share: a function of the file, called with the module that they belong to."""

    name: str
    kind: str  # the module's class
    part: str  # "" for all that the module computes, else "begin", "finish" or "inner"
    inputs: tuple[str, ...]  # tokens
    body: tuple[Step, ...]


def loop_variables(steps: Iterable[Step]) -> set[str]:
    """Name what the loops among statements count or walk with."""
    return {step.variable for step in steps if isinstance(step, Loop)}


@dataclass
class Tokens:
    """Gives every tensor a token, and remembers what it would like to be called."""

    wishes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)

    def new(self, wishes: Iterable[str], value: Value | None = None) -> str:
        """Return a token for a tensor; `value` tells its shape."""
        token = f"__t{len(self.wishes)}__"
        self.wishes[token] = tuple(wishes)
        if value is not None:
            self.values[token] = value
        return token


def common_calls(ops: Iterable[Op]) -> tuple[Call, ...]:
    """Return the module calls that operations all lie in, the outermost first."""
    every = [part for op in ops for part in ((*op.absorbed, op) if isinstance(op, Pointwise) else (op,))]
    common = every[0].origin.calls
    for op in every[1:]:
        same = 0
        for one, other in zip(common, op.origin.calls, strict=False):
            if one != other:
                break
            same += 1
        common = common[:same]
    return common


def tokens_in(text: str, arguments: re.Pattern[str] | None = None) -> list[str]:
    """List the tensors that a text reads, each once: tokens, and the names of forward's own arguments."""
    found = [match[0] for match in (arguments or TOKEN).finditer(text)]
    return list(dict.fromkeys(found))


def reading(arguments: Iterable[str]) -> re.Pattern[str]:
    """Return what finds tokens and the arguments' names in a text."""
    names = "|".join(map(re.escape, arguments))
    return re.compile(rf"__t\d+__|(?<![\w.\"'])(?:{names})(?![\w\"']|=[^=])") if names else TOKEN


def renamed(line: Line, names: Mapping[str, str], reads: re.Pattern[str] = TOKEN) -> Line:
    """Write other tokens, or names, for a line's; `reads` finds those that may have some."""

    def named(match: re.Match[str]) -> str:
        return names.get(match[0], match[0])

    results = tuple(names.get(result, result) for result in line.results)
    return replace(line, text=reads.sub(named, line.text), results=results)
