"""The names of a kernel: what goes in and out, its scalars, and the steps between."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from backends.compiler.group import Group
from backends.compiler.ir import Op, Value
from backends.compiler.naming import Names, identifier

VIEWS = ("view", "unsqueeze", "reshape")
"""Methods in the text of a parameter that is read through a view."""


@dataclass(frozen=True)
class Signature:
    """The names of one kernel's operands, results and scalars, and those that are still free."""

    names: Names
    operands: dict[Value, str]
    results: dict[Value, str]
    scalars: dict[str, str]  # host text → name

    @property
    def names_of(self) -> dict[Value, str]:
        """The tensors' names."""
        return {**self.operands, **self.results}

    @property
    def parameters(self) -> tuple[str, ...]:
        """What the launcher takes."""
        return (*self.operands.values(), *self.scalars.values())


def signature(group: Group, taken: Iterable[str]) -> Signature:
    """Name what goes in and out: parameters by their last name, results by the user's variable."""
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
        scalars[host] = names.unused(identifier(host.split(".")[-1].replace("self", "s")))
    results = {value: names.unused(*_result_wishes(value, group)) for value in group.outputs}
    return Signature(names, operands, results, scalars)


def _path(leaf: Value) -> list[str]:
    """Split a parameter's text into its names: self.layers[0].bias → layers, 0, bias."""
    text = leaf.host or ""
    if not text.startswith("self."):
        return []
    parts = re.findall(r"[A-Za-z_]\w*|\d+", text.split("(")[0].removeprefix("self."))
    return [part for part in parts if part not in VIEWS] or ["weight"]


def _operand_wishes(leaf: Value, path: list[str], is_shared: bool, is_ambiguous: bool) -> tuple[str, ...]:
    if path:
        longer = ("_".join(path[-2:]), "_".join(path))
        return longer if is_ambiguous and not is_shared else (path[-1], *longer)
    if is_shared:
        return ("x",)
    plain = re.match(r"[A-Za-z_]\w*", leaf.host or leaf.name)
    return (plain[0] if plain else "x", "x")


def _result_wishes(value: Value, group: Group) -> tuple[str, ...]:
    maker = value.op
    assert maker is not None
    own = [maker.origin.target] if maker.origin.target and not group.is_shared else []
    only = ["y", "out"] if len(group.outputs) == 1 else []
    return (*own, *only, maker.label.strip("_"))


def wishes(op: Op, group: Group) -> tuple[str, ...]:
    """Prefer the user's own name if this is the line's last operation, then PyTorch's or the step's role."""
    own = op.label.strip("_")
    is_users = op.origin.target and group.is_last_of_its_line(op) and not group.is_shared
    return (op.origin.target, own) if is_users else (own,)
