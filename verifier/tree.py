"""Nested values that modules take and return: flattened into a JSON-able structure and a list of tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch

Spec = dict[str, Any]
"""JSON-able structure of a value. `kind` is tensor, none, scalar, tuple, list, dict, record or other."""


@dataclass(frozen=True)
class Tree:
    """A value taken apart: `spec` says how the `tensors` were nested, in order of appearance."""

    spec: Spec
    tensors: tuple[torch.Tensor, ...]


def is_tensor(value: Any) -> TypeGuard[torch.Tensor]:
    """Tell whether a value is a tensor, whatever it says its class is: only then is it torch's code that answers."""
    return issubclass(type(value), torch.Tensor)


def flatten(value: Any) -> Tree:
    """Take a nested value apart."""
    tensors: list[torch.Tensor] = []
    return Tree(_describe(value, tensors), tuple(tensors))


def paths(spec: Spec, root: str = "output") -> list[str]:
    """Name every tensor of a structure, in order: output[0], output['mask'], ..."""
    return [path for path, node in walk(spec, root) if node["kind"] == "tensor"]


def walk(spec: Spec, root: str = "output") -> Iterator[tuple[str, Spec]]:
    """Yield every leaf of a structure with its path."""
    if not spec.get("items"):
        yield root, spec
        return
    keys = spec.get("keys") or range(len(spec["items"]))
    for key, item in zip(keys, spec["items"], strict=True):
        step = f".{key}" if spec["kind"] == "record" else f"[{key!r}]"
        yield from walk(item, root + step)


def map_tensors(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """Rebuild a nested value with every tensor replaced."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, Mapping):
        items = {key: map_tensors(function, item) for key, item in value.items()}
        return items if type(value) is dict else _rebuilt(value, items)
    if isinstance(value, list):
        return [map_tensors(function, item) for item in value]
    if isinstance(value, tuple):
        parts = [map_tensors(function, item) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts_by_name = {f.name: map_tensors(function, getattr(value, f.name)) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **parts_by_name)
    return value


def _rebuilt(value: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    try:
        return type(value)(items)  # type: ignore[call-arg]
    except TypeError:  # a mapping whose constructor wants something else: its content is what counts
        return items


def _describe(value: Any, tensors: list[torch.Tensor]) -> Spec:
    if is_tensor(value):
        tensors.append(value)
        return {"kind": "tensor", "at": len(tensors) - 1}
    if value is None:
        return {"kind": "none"}
    if isinstance(value, (bool, int, float, complex, str)):
        return {"kind": "scalar", "type": _plain_name(value), "value": repr(_plain(value))}
    if isinstance(value, Mapping):
        keys = list(value)
        return {"kind": "dict", "keys": [str(k) for k in keys], "items": [_describe(value[k], tensors) for k in keys]}
    if isinstance(value, tuple) and hasattr(value, "_fields") and hasattr(value, "_asdict"):
        return _record(type(value).__name__, value._asdict(), tensors)
    if isinstance(value, (list, tuple)):
        # torch.return_types.max and its like count as tuples: a kernel cannot build them
        kind = "list" if isinstance(value, list) else "tuple"
        return {"kind": kind, "items": [_describe(item, tensors) for item in value]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return _record(type(value).__name__, fields, tensors)
    return {"kind": "other", "name": type(value).__name__}


def _record(name: str, fields: Mapping[str, Any], tensors: list[torch.Tensor]) -> Spec:
    items = [_describe(item, tensors) for item in fields.values()]
    return {"kind": "record", "name": name, "keys": list(fields), "items": items}


def _plain_name(value: Any) -> str:
    return next(t.__name__ for t in (bool, int, float, complex, str) if isinstance(value, t))


def _plain(value: Any) -> Any:
    """Return a value of the plain type: a subclass may lie in its repr."""
    plain: dict[str, Callable[[Any], Any]] = {t.__name__: t for t in (bool, int, float, complex, str)}
    return plain[_plain_name(value)](value)


def signature(args: list[Any], kwargs: dict[str, Any]) -> str:
    """Describe the arguments of a call: float32 3x4, int 2, mask=bool 3x3."""
    named = [("", value) for value in args] + [(f"{key}=", value) for key, value in kwargs.items()]
    return ", ".join(name + _words(value) for name, value in named)


def _words(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {'x'.join(map(str, value.shape)) or 'scalar'}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} of {len(value)}"
    return repr(value) if value is None or isinstance(value, (bool, int, float)) else type(value).__name__
