"""Where a library can be added to: its modules, and the classes and functions of some."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

_POPULAR = ("torch.nn", "torch.nn.functional", "triton.language")
"""Modules on whose classes and functions anybody can leave something."""
_PLAIN = (int, float, str)

Places = Mapping[str, int]
"""How many names each place holds."""


def places() -> dict[str, int]:
    """Count the names that every place holds now."""
    return {place: len(held) for place, held in _open()}


def added(known: Places) -> Iterator[tuple[str, Any]]:
    """Yield what came since then by the name of its place; of a module that came as a whole, plain values only."""
    if not known:
        return
    for place, held in _open():
        count = known.get(place)
        if count == len(held):  # as nearly everywhere, after every call
            continue
        if count is None:
            yield from ((f"{place}.{name}", value) for name, value in list(held.items()) if isinstance(value, _PLAIN))
        else:  # new names come last
            yield from ((f"{place}.{name}", held[name]) for name in list(held)[count:])


def _open() -> Iterator[tuple[str, Mapping[str, Any]]]:
    modules = list(sys.modules.items())
    for name, module in modules:
        if isinstance(module, types.ModuleType):
            yield name, module.__dict__
    for name in _POPULAR:
        for key, thing in list(vars(sys.modules[name]).items()) if name in sys.modules else ():
            if isinstance(thing, (type, types.FunctionType)):
                yield f"{name}.{key}", vars(thing)
