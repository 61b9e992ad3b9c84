"""The names of a kernel: what goes in and out, its scalars, and the steps between."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from backends.compiler.group import Group
from backends.compiler.indexed import Measure, length, measures
from backends.compiler.ir import Op, Pointwise, Value, is_written_back
from backends.compiler.naming import Names, identifier

LENGTHS = {1: "columns", 2: "rows", 3: "planes"}
"""What a tensor has along a dimension counted from the last."""
VIEWS = ("view", "unsqueeze", "reshape")
"""Methods in the text of a parameter that is read through a view."""


@dataclass(frozen=True)
class Signature:
    """The names of one kernel's operands, results and scalars, and those that are still free."""

    names: Names
    operands: dict[Value, str]
    results: dict[Value, str]
    scalars: dict[str, str]  # host text → name
    measures: dict[Any, str]  # what the launcher reads off its operands → name

    @property
    def names_of(self) -> dict[Value, str]:
        """The tensors' names."""
        return {**self.operands, **self.results}

    @property
    def pointers(self) -> list[str]:
        """What the kernel takes: each tensor once, though it may be read and written."""
        return list(dict.fromkeys(self.names_of.values()))

    @property
    def returned(self) -> dict[Value, str]:
        """The results that the launcher allocates and returns: not what is written back to where it was read."""
        return {value: name for value, name in self.results.items() if not is_written_back(value)}

    @property
    def parameters(self) -> tuple[str, ...]:
        """What the launcher takes."""
        return (*self.operands.values(), *self.scalars.values())


def signature(group: Group, taken: Iterable[str], more: Iterable[Measure] = ()) -> Signature:
    """Name what goes in and out: parameters by their last name, results by the user's variable.

    `more` are numbers that the frame needs of the launcher.
    """
    names = Names(taken)
    paths = {leaf: _path(leaf) for leaf in group.leaves}
    last = [path[-1] for path in paths.values() if path]
    operands = {}
    for leaf, path in sorted(paths.items(), key=lambda item: len(item[1])):  # a short path has one name to offer
        is_ambiguous = bool(path) and last.count(path[-1]) > 1
        operands[leaf] = names.unused(*_operand_wishes(leaf, path, group.is_shared, is_ambiguous))
    operands = {leaf: operands[leaf] for leaf in group.leaves}
    scalars: dict[str, str] = {}
    for host in dict.fromkeys(scalar.host for op in group.ops for scalar in op.scalars):
        plain = host.split(".")[-1].replace("self", "s")
        computed = "scale" if host.endswith(" ** -0.5") else "count" if " * " in host else ""
        scalars[host] = names.unused(computed or identifier(plain))
    results = {value: _result_name(value, group, names, operands) for value in group.outputs}
    measures = {measure.key: names.unused(_measure_wish(measure, operands)) for measure in _measures(group, more)}
    return Signature(names, operands, results, scalars, measures)


def _measures(group: Group, more: Iterable[Measure]) -> list[Measure]:
    """The numbers asked for, and the lengths that addresses may need."""
    found = [m for op in group.ops if isinstance(op, Pointwise) for m in measures(op.expr)]
    found += [
        size
        for read in group.reads
        for dim in range(len(read.value.shape))
        if isinstance(size := length(read.value, dim), Measure)
    ]
    found += more
    named = [measure for measure in found if measure.wish]
    return list({measure.key: measure for measure in [*found, *named]}.values())


def _measure_wish(measure: Measure, operands: dict[Value, str]) -> str:
    """A length of x is called after the coordinate there, x_columns, where its rule has no better name."""
    if measure.wish:
        return measure.wish
    value, dim = measure.lengths[0]
    return f"{operands[value]}_{LENGTHS.get(len(value.shape) - dim, f'size_{dim}')}"


def _path(leaf: Value) -> list[str]:
    """Split a parameter's text into its names: self.layers[0].bias → layers, 0, bias."""
    text = leaf.host or ""
    if not text.startswith("self."):
        return []
    parts = re.findall(r"[A-Za-z_]\w*|\d+", re.split(r"\(|\[:", text)[0].removeprefix("self."))
    return [part for part in parts if part not in VIEWS] or ["weight"]


def _operand_wishes(leaf: Value, path: list[str], is_shared: bool, is_ambiguous: bool) -> tuple[str, ...]:
    if path:
        longer = ("_".join(path[-2:]), "_".join(path))
        return longer if is_ambiguous and not is_shared else (path[-1], *longer)
    if is_shared:
        return ("x",)
    plain = re.match(r"[A-Za-z_]\w*", leaf.host or leaf.name)
    return (plain[0] if plain else "x", "x")


def _result_name(value: Value, group: Group, names: Names, operands: dict[Value, str]) -> str:
    """Name a result; what is written back has the name it is read by."""
    into = value.op.into if isinstance(value.op, Pointwise) else None
    return operands[into] if into is not None else names.unused(*_result_wishes(value, group))


def _result_wishes(value: Value, group: Group) -> tuple[str, ...]:
    maker = value.op
    assert maker is not None
    own = [maker.origin.target] if maker.origin.target and not group.is_shared else []
    only = ["y", "out"] if sum(not is_written_back(output) for output in group.outputs) == 1 else []
    return (*own, *only, maker.label.strip("_"))


def wishes(op: Op, group: Group) -> tuple[str, ...]:
    """Prefer the user's own name if this is the line's last operation, then PyTorch's or the step's role."""
    own = op.label.strip("_")
    is_users = op.origin.target and group.is_last_of_its_line(op) and not group.is_shared
    return (op.origin.target, own) if is_users else (own,)
