"""The whole file: header, kernels with their launchers, the user's classes, and ModelNew."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from backends import NothingToConvert
from backends.compiler import gemm, kernel, split
from backends.compiler.carried import CARRIED, carried
from backends.compiler.fuse import fuse
from backends.compiler.group import Group
from backends.compiler.header import header, imports, nothing
from backends.compiler.ir import Extern, Program, Value, View
from backends.compiler.kernel import KernelText
from backends.compiler.margin import fit
from backends.compiler.naming import Names, chain, class_name
from backends.compiler.squeezed import squeezed
from backends.compiler.usercode import keep, stacked
from backends.compiler.usernames import defined_names, forward_arguments


@dataclass
class Part:
    """A kernel of the file: its name, and the group it is written for."""

    name: str
    group: Group


def write(program: Program, source: str, entry: str) -> Iterator[str]:
    """Yield the file's sections in order; raise NothingToConvert if no kernel would be in it."""
    returned = [value for value in program.outputs if isinstance(value, Value)]
    groups = fuse(program.ops, returned)
    if all(group.kind == "extern" for group in groups):
        raise NothingToConvert("not_convertible", nothing(groups))
    forward = Forward(program, groups, squeezed(groups, program.ops, returned), source, entry)
    body = forward.body()
    kept = keep(source, entry, body)
    parts = [(part, forward.text(part.group, part.name)) for part in forward.parts.values()]
    kernels = "\n\n\n".join(f"{text.kernel}\n\n{text.launcher}" for _, text in parts)
    classes = "\n".join([*kept.definitions, kept.model])
    yield f"{header(entry, groups)}\n\n{imports(kept.imports, kernels, body, classes)}\n"
    for function in carried(kernels):
        yield f"\n\n{function}"
    for _, text in parts:
        yield f"\n\n{text.kernel}"
        yield f"\n\n{text.launcher}"
    for definition in stacked(kept.definitions):
        yield f"\n\n{definition}\n"
    yield f"\n\n{kept.model}\n"


class Forward:
    """Writes the new forward, and collects the kernels that it calls."""

    def __init__(
        self, program: Program, groups: list[Group], squeezed: dict[Value, Value], source: str, entry: str
    ) -> None:
        self.program, self.groups, self.squeezed, self.entry = program, groups, squeezed, entry
        self.names = Names(["self", *forward_arguments(source, entry), *defined_names(source)])
        self.names.taken |= {entry, "ModelNew", *CARRIED}
        self.parts: dict[str, Part] = {}  # by their text without names from one place

    def body(self) -> str:
        """Write the statements of forward."""
        lines = [self._extern(group) if group.kind == "extern" else self._kernel(group) for group in self.groups]
        texts = [self.host(value) if isinstance(value, Value) else _constant(value) for value in self.program.outputs]
        returned = self.program.return_text.format(*texts)
        name, _, call = lines[-1].partition(" = ")
        lines[-1:] = [f"return {call}"] if name == returned and call else [lines[-1], f"return {returned}"]
        within = fit(lines, " " * 8)  # where they will stand
        return "\n".join([*self.program.guards, *(line[8:] for line in within)])

    def host(self, value: Value) -> str:
        """Write a tensor as forward sees it; views are made where they are read."""
        if value.host is not None:
            return value.host
        op = value.op
        assert isinstance(op, View), value.name
        return op.text.replace("{0}", self.host(op.source), 1)

    def _extern(self, group: Group) -> str:
        op = group.ops[0]
        assert isinstance(op, Extern)
        text = op.text.format(*(self.host(operand) for operand in op.operands))
        results = op.results or [op.out]
        for result in results:
            if result is not None:
                label = result.name if op.results else op.label
                result.host = self.names.unused(op.origin.target or label, label)
        return f"{', '.join('_' if result is None else str(result.host) for result in results)} = {text}"

    def _kernel(self, group: Group) -> str:
        for leaf in group.leaves:
            if leaf.host is None:
                leaf.host = self.host(leaf)
        part = self._part(group)
        numbers = dict.fromkeys(scalar.host for op in group.ops for scalar in op.scalars)
        arguments = [*(self.host(value) for value in group.leaves), *numbers]
        results = [self._result(value, group) for value in group.outputs]
        return f"{', '.join(results)} = {part.name}({', '.join(arguments)})"

    def _result(self, value: Value, group: Group) -> str:
        op = value.op
        assert op is not None
        label = op.label.strip("_")
        own = [op.origin.target] if op.origin.target and group.is_last_of_its_line(op) else []
        name = self.names.unused(*own, label, "y", f"{label}_out")
        self.squeezed.get(value, value).host = name
        return name

    def _part(self, group: Group) -> Part:
        """Find the kernel with this text, or name a new one.

        Two places share a kernel if it is the same when its names come from the operations' roles.
        """
        shared = replace(group, is_shared=True)
        text = self.text(shared, "shared")
        key = re.sub(r'""".*?"""', "", text.kernel + text.launcher, flags=re.S)
        if key in self.parts:
            self.parts[key].group = replace(self.parts[key].group, is_shared=True)
        else:
            self.parts[key] = Part(self._name(group), group)
        return self.parts[key]

    def _name(self, group: Group) -> str:
        """Name a kernel after the class where it is the whole forward, else after what it computes."""
        steps = chain(group.steps)
        steps = f"tensor_{steps}" if steps in dir(builtins) else steps
        is_whole = len(self.groups) == 1 and class_name(self.entry)
        return self.names.unused(*([class_name(self.entry)] if is_whole else []), steps)

    def text(self, group: Group, name: str) -> KernelText:
        """Write a group's kernel and launcher."""
        if group.kind == "matmul":
            return gemm.write(group, name)
        if group.kind == "split":
            return split.write(group, self.squeezed, name)
        return kernel.write(group, self.squeezed, name)


def _constant(value: Any) -> str:
    host = getattr(value, "host", None)
    return host if isinstance(host, str) else repr(value)
