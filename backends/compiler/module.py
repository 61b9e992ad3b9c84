"""The whole file: header, kernels with their launchers, the user's classes, and ModelNew."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from backends import NothingToConvert
from backends.compiler import gemm, kernel, split
from backends.compiler.fuse import Group, fuse
from backends.compiler.ir import Extern, Program, Value, View
from backends.compiler.kernel import NAME, KernelText
from backends.compiler.naming import Names
from backends.compiler.text import HELPERS
from backends.compiler.usercode import forward_arguments, keep

STANDARD = ("math", "typing", "collections", "dataclasses", "functools")
"""Packages whose imports come first."""


@dataclass
class Part:
    """A kernel of the file and the calls that share it."""

    text: KernelText
    name: str
    lines: list[str] = field(default_factory=list)


def write(program: Program, source: str, entry: str) -> Iterator[str]:
    """Yield the file's sections in order; raise NothingToConvert if no kernel would be in it."""
    return FileWriter(program, source, entry).sections()


class FileWriter:
    """Collects the text of one file."""

    def __init__(self, program: Program, source: str, entry: str) -> None:
        self.program, self.source, self.entry = program, source, entry
        self.names = Names(["self", *forward_arguments(source, entry)])
        self.names.taken |= {entry, "ModelNew", "gemm_tile", "along_k", "expect_shape"}
        self.parts: dict[str, Part] = {}
        self.shared_texts: dict[str, KernelText] = {}
        self.lines: list[str] = []
        returned = [value for value in program.outputs if isinstance(value, Value)]
        self.groups = fuse(program.ops, returned)
        self.squeezed = self._squeezed(returned)

    def sections(self) -> Iterator[str]:
        kernels = [group for group in self.groups if group.kind != "extern"]
        if not kernels:
            raise NothingToConvert("not_convertible", self._nothing())
        for group in self.groups:
            self._extern(group) if group.kind == "extern" else self._kernel(group)
        self._return()
        body = "\n".join([*self.program.guards, *self.lines])
        kept = keep(self.source, self.entry, body)
        yield self._header() + "\n\n" + self._imports(kept.imports, body, kept) + "\n"
        for helper in dict.fromkeys(name for part in self.parts.values() for name in part.text.helpers):
            yield "\n\n" + HELPERS[helper]
        if any("expect_shape(" in part.text.launcher for part in self.parts.values()):
            yield "\n\n" + kernel.EXPECT_SHAPE
        if any(part.text.inputs == "matmul" for part in self.parts.values()):
            yield "\n\n" + gemm.TILE_CHOICE
        if any("along_k(" in part.text.launcher for part in self.parts.values()):
            yield "\n\n" + gemm.LAYOUT
        for part in self.parts.values():
            yield "\n\n" + part.text.kernel.replace(NAME, part.name)
            yield "\n\n" + part.text.launcher.replace(NAME, part.name)
        for definition in kept.definitions:
            yield "\n\n" + definition + "\n"
        yield "\n\n" + kept.model + "\n"

    # ---- forward --------------------------------------------------------------------------------

    def host(self, value: Value) -> str:
        """Write a tensor as forward sees it; views are made where they are read."""
        if value.host is not None:
            return value.host
        op = value.op
        assert isinstance(op, View), value.name
        return op.text.replace("{0}", self.host(op.source), 1)

    def _extern(self, group: Group) -> None:
        op = group.ops[0]
        assert isinstance(op, Extern)
        text = op.text.format(*(self.host(operand) for operand in op.operands))
        if op.results:
            names = []
            for result in op.results:
                if result is None:
                    names.append("_")
                    continue
                result.host = self.names.unused(op.origin.target or result.name, result.name)
                names.append(result.host)
            self.lines.append(f"{', '.join(names)} = {text}")
            return
        op.out.host = self.names.unused(op.origin.target or op.label, op.label)
        self.lines.append(f"{op.out.host} = {text}")

    def _kernel(self, group: Group) -> None:
        for leaf in group.leaves:
            if leaf.host is None:
                leaf.host = self.host(leaf)
        part = self._part(group)
        arguments = [*(self.host(value) for value in group.leaves), *self._scalars(group)]
        results = []
        for value in group.outputs:
            op = value.op
            assert op is not None
            final = self.squeezed.get(value, value)
            label = op.label.strip("_")
            last = not any(
                other.origin.lineno == op.origin.lineno for other in group.ops[group.ops.index(op) + 1 :]
            )
            own = [op.origin.target] if op.origin.target and last else []
            name = self.names.unused(*own, label, "y", f"{label}_out")
            final.host = name
            results.append(name)
        self.lines.append(f"{', '.join(results)} = {part.name}({', '.join(arguments)})")

    def _scalars(self, group: Group) -> list[str]:
        return list(dict.fromkeys(scalar.host for op in group.ops for scalar in op.scalars))

    def _part(self, group: Group) -> Part:
        """Write a group's kernel, or find the same one written before."""
        group.is_shared = True
        shared = self._text(group)
        key = _without_lines(shared.kernel + shared.launcher)
        if key in self.parts:
            part = self.parts[key]
            part.text = self.shared_texts[key]
            return part
        group.is_shared = False
        text = self._text(group)
        is_builtin = text.name in dir(builtins)
        self.parts[key] = Part(text, self.names.unused(f"tensor_{text.name}" if is_builtin else text.name))
        self.shared_texts[key] = shared
        return self.parts[key]

    def _text(self, group: Group) -> KernelText:
        if group.kind == "matmul":
            return gemm.write(group)
        if group.kind == "split":
            return split.write(group, self.squeezed)
        return kernel.write(group, self.squeezed)

    def _return(self) -> None:
        texts = [self.host(v) if isinstance(v, Value) else _constant(v) for v in self.program.outputs]
        returned = self.program.return_text.format(*texts)
        name, _, call = self.lines[-1].partition(" = ") if self.lines else ("", "", "")
        if name == returned and call:
            self.lines[-1] = f"return {call}"
        else:
            self.lines.append(f"return {returned}")

    # ---- what a kernel may allocate in its final shape --------------------------------------------

    def _squeezed(self, returned: list[Value]) -> dict[Value, Value]:
        """Row results that everybody reads with the reduced dimensions dropped: value → its dropped view."""
        readers: dict[Value, list[Any]] = {}
        for op in self.program.ops:
            for value in op.inputs:
                readers.setdefault(value, []).append(op)
        alive = self._alive(returned)
        found = {}
        for group in self.groups:
            for value in group.outputs if group.dims else []:
                if value.shape != group.row_shape:
                    continue
                end = value
                while end not in returned:
                    users = [op for op in readers.get(end, []) if op in alive]
                    if len(users) == 1 and isinstance(users[0], View) and users[0].kind == "squeeze":
                        end = users[0].out
                    else:
                        break
                kept = len(group.domain) - len(group.dims)
                if end is not value and len(end.shape) == kept:
                    found[value] = end
        return found

    def _alive(self, returned: list[Value]) -> set[Any]:
        needed, alive = set(returned), set()
        for op in reversed(self.program.ops):
            made = {op.out, *(op.results if isinstance(op, Extern) else [])}
            if made & needed or (isinstance(op, Extern) and op.is_barrier):
                alive.add(op)
                needed.update(op.inputs)
        return alive

    # ---- the header -----------------------------------------------------------------------------

    def _header(self) -> str:
        here = list(dict.fromkeys(step for group in self.groups for step in group.steps))
        stayed: dict[str, str] = {}
        for group in self.groups:
            op = group.ops[0]
            if isinstance(op, Extern) and op.is_work:
                stayed.setdefault(op.label, op.reason)
        lines = [f"Triton for `{self.entry}`.", "", f"In Triton:  {', '.join(here)}"]
        lines.append("In PyTorch: " + ("; ".join(f"{k} ({v})" for k, v in stayed.items()) or "nothing"))
        text = "\n".join(lines)
        return f'"""{text}\n"""'

    def _imports(self, user: tuple[str, ...], body: str, kept: Any) -> str:
        everything = body + "".join(p.text.launcher + p.text.kernel for p in self.parts.values())
        wanted = ["import torch"]
        if re.search(r"\bmath\.", everything):
            wanted.append("import math")
        if re.search(r"\bnn\b", kept.model + "".join(kept.definitions)):
            wanted.append("import torch.nn as nn")
        if re.search(r"\bF\.", body):
            wanted.append("import torch.nn.functional as F")
        wanted += ["import triton", "import triton.language as tl", *user]
        unique = list(dict.fromkeys(wanted))
        future = [line for line in unique if "__future__" in line]
        standard = sorted(line for line in unique if line.split()[1].split(".")[0] in STANDARD)
        rest = [line for line in unique if line not in future and line not in standard]
        blocks = [block for block in (future, standard, sorted(rest, key=_import_key)) if block]
        return "\n\n".join("\n".join(block) for block in blocks)

    def _nothing(self) -> str:
        stayed = list(dict.fromkeys(
            op.label for group in self.groups for op in group.ops if isinstance(op, Extern) and op.is_work
        ))
        return (
            f"builtin can write no kernel for this module: {', '.join(stayed) or 'there is no work in it'}"
            f"{' would all stay in PyTorch' if stayed else ''}"
        )


def _import_key(line: str) -> tuple[bool, str]:
    words = line.split()
    return (words[0] == "from", words[1])


def _constant(value: Any) -> str:
    host = getattr(value, "host", None)
    return host if isinstance(host, str) else repr(value)


def _without_lines(text: str) -> str:
    """A kernel's text without the lines it stands for: what makes two kernels the same."""
    return re.sub(r'""".*?"""', "", text, flags=re.S)
