"""What a tensor of forward would like to be called: the user's own name for it, or PyTorch's for what made it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from backends.compiler.ir import Op

NAME = r"[A-Za-z_]\w*"
UNPACKED = re.compile(rf"\(?({NAME}(?:\s*,\s*{NAME})+)\s*\)?\s*=(?!=)")
"""A statement that names the parts of a tuple."""


def readers(ops: Iterable[Op]) -> dict[int, list[Op]]:
    """Map each tensor, by identity, to the operations that read it."""
    found: dict[int, list[Op]] = {}
    for op in ops:
        for value in op.inputs:
            found.setdefault(id(value), []).append(op)
    return found


def wishes(op: Op, label: str, read_by: Iterable[Op], *, is_last: bool = True) -> list[str]:
    """Name a result: by what the user's line assigns where it is that, else so if the name is free.

    `is_last` says that no other operation of its kernel comes from that line.
    """
    plain = [label, "y", f"{label}_out"]
    own = op.origin.target
    if not own or not is_last or any(_is_inside(op, reader) for reader in read_by):
        return plain
    return [own, *plain] if any(_is_same_line(op, reader) for reader in read_by) else [own]


def unpacked(op: Op, labels: Sequence[str]) -> list[list[str]]:
    """Name the results of one call: q, k, v where the user's line unpacks as many, else by their labels."""
    found = UNPACKED.match(op.origin.line)
    names = re.findall(NAME, found[1]) if found else []
    if len(names) != len(labels) or len(set(names)) != len(names):
        return [[label] for label in labels]
    return [[name, label] if name != "_" else [label] for name, label in zip(names, labels, strict=True)]


def _is_inside(op: Op, reader: Op) -> bool:
    """Tell whether both are steps of one layer of PyTorch's."""
    calls = op.origin.calls
    return bool(calls) and calls[-1][1].startswith("nn.") and calls == reader.origin.calls


def _is_same_line(op: Op, reader: Op) -> bool:
    """Tell whether the reader runs for the same statement, and not as the next round of the user's loop."""
    lines = op.origin.lines
    if reader.origin.lines[: len(lines)] != lines:
        return False
    own, other = ([re.sub(r"\d+", "#", path) for path, _ in each.origin.calls] for each in (op, reader))
    return op.origin.calls == reader.origin.calls or own != other
