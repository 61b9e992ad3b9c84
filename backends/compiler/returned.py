"""How `forward` puts its results together again: the text of the returned structure."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from torch.utils import _pytree as pytree

from backends import NothingToConvert


@dataclass(frozen=True)
class _Leaf:
    index: int


def structure(count: int, spec: Any) -> str:
    """Write the returned structure with {0}, {1}, ... for its leaves."""
    return _write(pytree.tree_unflatten([_Leaf(index) for index in range(count)], spec))


def _write(node: Any) -> str:
    if isinstance(node, _Leaf):
        return f"{{{node.index}}}"
    if node is None:
        return "None"
    if type(node) is dict:
        return "{{" + ", ".join(f"{key!r}: {_write(value)}" for key, value in node.items()) + "}}"
    if is_dataclass(node):
        held = ((field.name, getattr(node, field.name)) for field in fields(node) if field.init)
        return f"{type(node).__name__}({', '.join(f'{name}={_write(value)}' for name, value in held)})"
    if not isinstance(node, (tuple, list)):
        raise NothingToConvert("not_convertible", f"forward returns a {type(node).__name__}")
    inner = ", ".join(map(_write, node))
    if type(node) is tuple:
        return f"({inner}{',' if len(node) == 1 else ''})"
    if type(node) is list:
        return f"[{inner}]"
    if type(node).__module__ == "torch.return_types":
        return f"torch.return_types.{type(node).__name__}(({inner}))"
    if hasattr(node, "_fields"):
        return f"{type(node).__name__}({inner})"
    raise NothingToConvert("not_convertible", f"forward returns a {type(node).__name__}")
