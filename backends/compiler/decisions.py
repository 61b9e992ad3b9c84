"""What the user's own lines decide by sizes while they are traced: the file refuses sizes that decide otherwise.

The exporter remembers what operators ask of a size. That `range(x.shape[1])` went round six times, or that `if n > 4`
held, it forgets: the graph is one of what was decided.
"""

from __future__ import annotations

import ast
import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sympy
import torch

from backends.compiler.sizetext import size_text

NUMBERS = (torch.SymBool, torch.SymInt, torch.SymFloat)
WAYS = ("__bool__", "__int__", "__index__", "__float__")
_SOURCE = re.compile(r"L\['(\w+)'\](.*)\.size\(\)\[(\d+)\]")


@dataclass(frozen=True)
class Decision:
    """A relation of sizes that held, or the sizes whose very numbers were taken (`holds` is None).

    `names` are the sizes: "x.shape[1]" by their symbols.
    """

    holds: sympy.Basic | None
    names: Mapping[sympy.Symbol, str]


@contextlib.contextmanager
def watched(path: Path) -> Iterator[list[Decision]]:
    """Collect what the lines of the file at `path` decide by traced sizes."""
    found: list[Decision] = []
    plain = [(kind, way, vars(kind)[way]) for kind in NUMBERS for way in WAYS if way in vars(kind)]
    for kind, way, method in plain:
        setattr(kind, way, _watching(method, way, str(path), found))
    try:
        yield found
    finally:
        for kind, way, method in plain:
            setattr(kind, way, method)


def _watching(method: Callable[[Any], Any], way: str, file: str, found: list[Decision]) -> Callable[[Any], Any]:
    def ask(number: Any) -> Any:
        asked = number.node.expr if number.node.constant is None else None
        answer = method(number)
        if asked is not None and asked.free_symbols and sys._getframe(1).f_code.co_filename == file:
            names = _names(number.node.shape_env, asked)
            if names is not None:
                found.append(Decision(_relation(asked, answer) if way == "__bool__" else None, names))
        return answer

    return ask


def _relation(asked: Any, answer: bool) -> sympy.Basic:
    relation = asked if isinstance(asked, sympy.logic.boolalg.Boolean) else sympy.Ne(asked, 0)
    return relation if answer else sympy.Not(relation)


def _names(environment: Any, asked: sympy.Basic) -> dict[sympy.Symbol, str] | None:
    """Say which inputs' dimensions the symbols are; None where one is not an input's."""
    names = {}
    for symbol in asked.free_symbols:
        for source in environment.var_to_sources.get(symbol, ()):
            text = source.name if isinstance(source.name, str) else source.name()
            if found := _SOURCE.fullmatch(text):
                names[symbol] = f"{found[1]}{found[2]}.shape[{found[3]}]"
                break
        else:
            return None
    return names


def conditions(decisions: Sequence[Decision], inputs: Mapping[str, Any], free: set[str]) -> dict[str, str]:
    """Write each decision as the condition to refuse by, and what the file is then said to be written for.

    `inputs` are forward's arguments by name, `free` the dimensions that the graph still takes at any length.
    """
    written: dict[str, str] = {}
    for decision in decisions:
        holds, names = decision.holds, decision.names
        texts = (_written(holds, names), _written(sympy.Not(holds), names)) if holds is not None else ("", "")
        if all(texts) and free.intersection(names.values()):
            written[texts[1]] = texts[0]
        else:
            lengths = {name: _evaluated(name, inputs) for name in sorted(names.values())}
            written |= {f"{name} != {length}": f"{name} = {length}" for name, length in lengths.items()}
    return written


def refuses(condition: str, inputs: Mapping[str, Any]) -> bool:
    """Tell whether a condition, as `conditions` writes it, would refuse these inputs."""
    return bool(_evaluated(condition, inputs))


def _evaluated(text: str, inputs: Mapping[str, Any]) -> Any:
    return eval(text, {"__builtins__": {"int": int, "float": float, "min": min, "max": max}}, dict(inputs))


def _written(relation: sympy.Basic, names: Mapping[sympy.Symbol, str]) -> str:
    """Write a relation over the inputs' shapes; "" where Python has no plain words for it."""
    text = size_text(relation, names)
    return "" if "torch." in text or "sympy" in text else ast.unparse(ast.parse(text, mode="eval"))


def length(thing: Any) -> Any:
    """Count as `len` does, and a traced tensor's rows without fixing their number."""
    return thing.shape[0] if isinstance(thing, torch.Tensor) and thing.dim() else len(thing)
