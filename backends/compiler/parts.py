"""The kernels of a file: each once, whichever places of forward call it."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from backends.compiler import attention, conv, gemm, kernel, planes, scan, scattered, split
from backends.compiler.group import Group
from backends.compiler.ir import Value
from backends.compiler.kernel import KernelText
from backends.compiler.naming import Names, chain, class_name
from backends.compiler.schedule import Schedule

LAID_OUT = re.compile(r"^ *\w+(?:, \w+)* = \w+\.contiguous\(\)(?:, \w+\.contiguous\(\))*\n", re.M)
"""A launcher's line that copies what is strided in memory, and does nothing for all else."""


@dataclass
class Part:
    """A kernel of the file: its name, and the group it is written for."""

    name: str
    group: Group


class Parts:
    """Collects kernels; `entry` is the class whose forward is one kernel alone, "" where there are several."""

    def __init__(self, names: Names, squeezed: dict[Value, Value], schedule: Schedule, entry: str) -> None:
        self.names, self.squeezed, self.schedule, self.entry = names, squeezed, schedule, entry
        self.found: dict[str, Part] = {}  # by their text without names from one place

    def __iter__(self) -> Iterator[Part]:
        return iter(self.found.values())

    def find(self, group: Group) -> Part:
        """Find the kernel with a group's text, or name a new one.

        Two places share a kernel if it is the same when its names come from the operations' roles. That of the place
        whose operands may be strided serves both.
        """
        shared = replace(group, is_shared=True)
        text = self.text(shared, "shared")
        whole = re.sub(r'""".*?"""', "", text.kernel + text.launcher, flags=re.S)
        key = LAID_OUT.sub("", whole)
        if key in self.found and _more_strided(self.found[key].group, group) is None:
            key = whole
        if key not in self.found:
            self.found[key] = Part(self._name(group), group)
            return self.found[key]
        part = self.found[key]
        widest = _more_strided(part.group, group) or part.group
        part.group = replace(widest, is_shared=True, steps=part.group.steps, lines=part.group.lines)
        return part

    def _name(self, group: Group) -> str:
        """Name a kernel after the class where it is the whole forward, else after what it computes."""
        steps = chain(group.steps)
        steps = f"tensor_{steps}" if steps in dir(builtins) else steps
        whole = class_name(self.entry)
        return self.names.unused(*([whole] if whole else []), steps)

    def text(self, group: Group, name: str) -> KernelText:
        """Write a group's kernel and launcher."""
        if group.kind == "matmul":
            if self.schedule.planes and planes.is_worth(group):
                return planes.write(group, name, self.schedule.planes)
            return gemm.write(group, name, copies=self.schedule.copies)
        if group.kind == "attention":
            return attention.write(group, name)
        if group.kind == "scan":
            return scan.write(group, self.squeezed, name)
        if group.kind == "convolution":
            return conv.write(group, name, self.schedule.planes)
        if group.kind == "scatter":
            return scattered.write(group, name)
        if group.kind == "split":
            return split.write(group, self.squeezed, name)
        return kernel.write(group, self.squeezed, name, self.schedule)


def _more_strided(one: Group, other: Group) -> Group | None:
    """Return the group whose launcher lays out what the other's does, and perhaps more; None where neither does."""
    pairs = [(a.dense, b.dense) for a, b in zip(one.leaves, other.leaves, strict=True)]
    if all(a <= b for a, b in pairs):
        return one
    return other if all(b <= a for a, b in pairs) else None
