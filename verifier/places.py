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
    for place, held in _open() if known else ():
        if place not in known:
            yield from ((f"{place}.{name}", value) for name, value in list(held.items()) if isinstance(value, _PLAIN))
        elif len(held) > known[place]:  # new names come last
            yield from ((f"{place}.{name}", held[name]) for name in list(held)[known[place] :])


def _open() -> Iterator[tuple[str, Mapping[str, Any]]]:
    modules = [(name, module) for name, module in list(sys.modules.items()) if isinstance(module, types.ModuleType)]
    yield from ((name, vars(module)) for name, module in modules)
    for name, module in modules:
        for key, thing in list(vars(module).items()) if name in _POPULAR else ():
            if isinstance(thing, (type, types.FunctionType)):
                yield f"{name}.{key}", vars(thing)
