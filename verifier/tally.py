"""The numbers that a candidate keeps from call to call, wherever it keeps them: a count of calls is among them.

Looked for in its instance and its file, and in what was added to libraries: attributes, containers and their lengths,
closures, iterators, objects of the standard library, tensors.
"""

from __future__ import annotations

import array
import contextlib
import contextvars
import functools
import gc
import os
import sys
import threading
import types
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from verifier.places import Places, added

MOST = 4000
"""Things that are looked at: beyond, it is data."""
FEW = 4
"""Elements of a tensor that is somebody's counter, where results may differ by rounding from call to call."""
LARGEST = 1 << 22  # bytes that are worth a checksum
_NUMBERS = (int, float, bool, complex, str, type(None))
_BYTES = (bytes, bytearray, array.array)
_SIZED = (list, dict, set, deque, bytearray, tuple)
_PUBLIC = ("builtins", "sys", "torch", "triton")
"""Modules where anybody can leave a number."""
_CLOSED = (types.BuiltinFunctionType, types.CodeType, type(threading.Lock()), type(threading.RLock()))


def tally(
    model: torch.nn.Module, kernel: types.ModuleType, known: Places | None = None, *, exact: bool = True
) -> dict[str, Any]:
    """Return every plain number by the name of its place; `known` are the `places` before there was a candidate.

    Not `exact` means that kept results may differ by rounding: then real numbers in larger tensors are no counters.
    """
    own = {id(tensor) for tensor in [*model.parameters(), *model.buffers()]}
    waiting: deque[tuple[str, Any]] = deque([("self", model), ("", kernel), ("os.environ", dict(os.environ))])
    waiting.extend((name, sys.modules[name]) for name in _PUBLIC if name in sys.modules)
    waiting.extend(
        (place, value) for place, value in added(known or {}) if not place.rpartition(".")[2].startswith("__")
    )
    seen: dict[int, Any] = {}  # kept alive, so that no other thing gets its number
    found: dict[str, Any] = {}
    while waiting and len(seen) < MOST:
        place, thing = waiting.popleft()
        if isinstance(thing, _NUMBERS):
            found[place] = repr(thing)  # NaN is itself
        elif isinstance(thing, _BYTES):
            found[place] = len(thing), zlib.crc32(bytes(thing[:LARGEST]))
        elif id(thing) not in seen:
            seen[id(thing)] = thing
            if isinstance(thing, torch.Tensor):
                if id(thing) not in own and (content := _content_of(thing, exact)) is not None:
                    found[place] = content
                waiting.extend([*_named(place + ".", vars(thing)), (place + ".grad", thing.grad)])
                continue
            if isinstance(thing, _SIZED):
                found[f"the length of {place}"] = len(thing)
            waiting.extend(_parts(place, thing, kernel.__name__, exact))
    return found


def _parts(place: str, thing: Any, home: str, exact: bool) -> Iterator[tuple[str, Any]]:
    """Yield what a thing holds, if it is a container or the candidate's own; libraries' things are theirs."""
    kind = type(thing)
    if isinstance(thing, types.ModuleType):
        own = thing.__name__ == home
        values = _named("" if own else place + ".", vars(thing))
        yield from (pair for pair in values if own or isinstance(pair[1], _NUMBERS))
    elif isinstance(thing, types.FunctionType):
        if thing.__module__ == home:
            cells = zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True)
            yield from ((f"{place}.{name}", _content(cell)) for name, cell in cells)
            yield from ((f"{place}'s default", value) for value in thing.__defaults__ or ())
            yield from _named(place + ".", vars(thing))
    elif isinstance(thing, types.GeneratorType):
        if thing.gi_frame is not None:
            yield f"{place}'s step", thing.gi_frame.f_lasti
            yield from _named(place + ".", thing.gi_frame.f_locals)
    elif isinstance(thing, type):
        if thing.__module__ == home:
            yield from _named(place + ".", vars(thing))
    elif isinstance(thing, torch.nn.Module) or kind.__module__ == home:
        yield from _items(place, thing)
        yield from _named(place + ".", getattr(thing, "__dict__", {}))
        yield from _named(place + ".", {name: getattr(thing, name, None) for name in getattr(kind, "__slots__", ())})
        if kind.__module__ == home:
            yield kind.__name__, kind
    elif isinstance(thing, contextvars.ContextVar):
        yield place, thing.get(None)
    elif isinstance(thing, threading.local):
        yield from _named(place + ".", vars(thing))
    elif isinstance(thing, functools.partial):
        yield from ((f"{place}'s argument", value) for value in (thing.func, *thing.args, *thing.keywords.values()))
    elif isinstance(thing, (Mapping, list, tuple, set, frozenset, deque)):
        yield from _items(place, thing)
    elif kind.__module__.partition(".")[0] in sys.stdlib_module_names:
        yield from _state(place, thing)
    elif isinstance(held := getattr(thing, "__dict__", None), dict):
        yield from (pair for pair in _named(place + ".", held) if isinstance(pair[1], _NUMBERS))
    elif hasattr(thing, "tolist") and hasattr(thing, "nbytes"):  # an array of numpy's
        yield place, _array(thing, exact)


def _items(place: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a container contains."""
    if isinstance(thing, Mapping):
        for at, (key, value) in enumerate(list(thing.items())):
            yield f"{place}[{key!r}]" if isinstance(key, (*_NUMBERS, tuple)) else f"{place}[#{at}]", value
    elif isinstance(thing, (list, tuple, set, frozenset, deque)):
        yield from ((f"{place}[{at}]", value) for at, value in enumerate(list(thing)))


def _state(place: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object of the standard library would be copied by, and how far it was read."""
    if isinstance(thing, _CLOSED):
        return
    with contextlib.suppress(Exception):
        reduced = thing.__reduce_ex__(2)
        if isinstance(reduced, tuple):
            yield from ((f"{place}'s step", part) for part in reduced[1:3])
            return
    with contextlib.suppress(Exception):
        yield f"{place}'s step", thing.tell()
    yield from ((f"{place}'s part {at}", part) for at, part in enumerate(gc.get_referents(thing)))


def _content_of(tensor: torch.Tensor, exact: bool) -> Any:
    """Return what tells one content of a tensor from another; None where it is data."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
        return None
    if tensor.numel() <= FEW:
        return tensor.tolist()
    real = tensor.is_floating_point() or tensor.is_complex()
    if (real and not exact) or tensor.numel() * tensor.element_size() > LARGEST:
        return None
    return zlib.crc32(tensor.detach().contiguous().view(-1).view(torch.uint8).cpu().numpy().data)


def _array(array: Any, exact: bool) -> Any:
    if array.size <= FEW:
        return repr(array.tolist())
    is_data = (array.dtype.kind in "fc" and not exact) or array.nbytes > LARGEST
    return None if is_data else zlib.crc32(array.tobytes())


def _named(before: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((before + name, value) for name, value in list(values.items()) if not name.startswith("__"))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
