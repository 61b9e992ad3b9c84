"""A group → the text of its @triton.jit kernel and of the function that launches it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import indent

from backends.compiler.axes import Axis, layout, presence
from backends.compiler.body import Body
from backends.compiler.frames import Frame, choose
from backends.compiler.fuse import Group
from backends.compiler.ir import Shape, Value
from backends.compiler.naming import Names, chain, identifier
from backends.compiler.stream import streamed

TAB = "    "
NAME = "@name"
"""Stands for the kernel's name until the file as a whole is known."""


@dataclass(frozen=True)
class KernelText:
    """One kernel and its launcher, and what the launcher takes (tensors, then numbers) and returns."""

    name: str
    kernel: str
    launcher: str
    operands: tuple[Value, ...]
    scalars: tuple[str, ...]
    results: tuple[Value, ...]
    helpers: tuple[str, ...]
    inputs: str  # how an operand's layout matters: shown nowhere, part of what makes two kernels the same


@dataclass(frozen=True)
class Signature:
    """The names of one kernel's operands, results and scalars."""

    names: Names
    operands: dict[Value, str]
    results: dict[Value, str]
    scalars: dict[str, str]

    @property
    def pointers(self) -> dict[Value, str]:
        return {value: f"{name}_ptr" for value, name in {**self.operands, **self.results}.items()}


def signature(group: Group, axis_names: list[str]) -> Signature:
    """Name what goes in and out: parameters by their last name, results by the user's variable."""
    names = Names(axis_names)
    operands = {leaf: names.unused(*_operand_wishes(leaf, group.is_shared)) for leaf in group.leaves}
    scalars: dict[str, str] = {}
    for op in group.ops:
        for scalar in op.scalars:
            scalars.setdefault(scalar.host, names.unused(identifier(scalar.host.split(".")[-1].replace("self", "s"))))
    results = {}
    for value in group.outputs:
        maker = value.op
        assert maker is not None
        label = maker.label.strip("_")
        own = "" if group.is_shared else maker.origin.target
        only = len(group.outputs) == 1
        results[value] = names.unused(*([own] if own else []), *(["y", "out"] if only else []), label)
    return Signature(names, operands, results, scalars)


def _operand_wishes(leaf: Value, is_shared: bool) -> tuple[str, ...]:
    if is_shared and not (leaf.host or "").startswith("self."):
        return ("x",)
    text = leaf.host or leaf.name
    if text.startswith("self."):
        parts = re.findall(r"[A-Za-z_]\w*|\d+", text.split("(")[0].removeprefix("self."))
        parts = [part for part in parts if part not in ("view", "unsqueeze", "reshape")] or ["weight"]
        return (parts[-1], "_".join(parts[-2:]), "_".join(parts))
    plain = re.match(r"[A-Za-z_]\w*", text)
    return (plain[0] if plain else "x", "x")


def write(group: Group, squeezed: dict[Value, Value]) -> KernelText:
    """Write an elementwise or a reducing kernel."""
    shape_of_programs = choose(layout(group))
    return Assembly(group, shape_of_programs, squeezed).kernel()


class Assembly:
    """Puts a kernel's parts in order: signature, docstring, coordinates, masks, body, launcher."""

    def __init__(self, group: Group, frame: Frame, squeezed: dict[Value, Value]) -> None:
        self.group, self.frame, self.squeezed = group, frame, squeezed
        axis_names = [name for axis in frame.layout.axes for name in (axis.name, axis.size)]
        self.signature = signature(group, [*axis_names, *frame.masks, *_assigned(frame), "n_elements"])
        self.body = Body(group, frame, self.signature.names, self.signature.pointers, self.signature.scalars)

    def kernel(self) -> KernelText:
        lines = streamed(self.body) if self.frame.streamed else self.body.whole()
        lines = self._place_masks(lines)
        name = NAME
        sizes = self._sizes(lines)
        return KernelText(
            chain(self.group.steps), self._kernel_text(name, lines, sizes), self._launcher_text(name, sizes),
            tuple(self.signature.operands), tuple(self.signature.scalars), tuple(self.signature.results),
            tuple(self.body.writer.helpers), self.frame.summary,
        )

    # ---- the kernel -----------------------------------------------------------------------------

    def _place_masks(self, lines: list[str]) -> list[str]:
        """Define each mask as soon as its coordinates are: before the loop where it can be."""
        moving = _assigned_in(self.frame.step)
        masks = self.body.mask_lines()
        inside: list[str] = []
        for line in masks:
            if _words(line) & moving:
                inside.append(line)
                moving.add(line.split(" = ")[0])
        outside = [line for line in masks if line not in inside]
        placed: list[str] = [*self.frame.setup, *outside, ""]
        for line in lines:
            if line.strip() == "@masks":
                placed += [TAB + text for text in inside]
            else:
                placed.append(line)
        return placed

    def _sizes(self, lines: list[str]) -> list[str]:
        words = _words("\n".join(lines))
        every = [axis.size for axis in self.frame.layout.axes] + ["n_elements"]
        return [name for name in dict.fromkeys(every) if name in words]

    def _kernel_text(self, name: str, lines: list[str], sizes: list[str]) -> str:
        pointers = self.signature.pointers
        first = ", ".join(pointers[value] for value in [*self.signature.operands, *self.signature.results])
        second = ", ".join([*sizes, *self.signature.scalars.values()])
        third = ", ".join(f"{name}: tl.constexpr" for name in self.frame.constexprs)
        header = "\n".join(f"{TAB}{part}," for part in (first, second, third) if part)
        body = "\n".join(TAB + line if line else "" for line in lines)
        doc = docstring(self.group, f"{formula(self.group)}: {self.frame.summary}.")
        return f"@triton.jit\ndef {name}_kernel(\n{header}\n):\n{doc}\n{body}\n"

    # ---- the launcher ---------------------------------------------------------------------------

    def _launcher_text(self, name: str, sizes: list[str]) -> str:
        operands = self.signature.operands
        arguments = ", ".join([*operands.values(), *self.signature.scalars.values()])
        lines = contiguous(operands)
        allocations = [self._allocation(value, text) for value, text in self.signature.results.items()]
        size_lines, shape = self._size_lines(sizes)
        checks = shape_checks(operands, self.group.domain, self._shape())
        if shape in "\n".join([*allocations, *size_lines, *checks]):
            lines.append(f"shape = {self._shape()}")
        lines += checks + allocations + size_lines
        lines += [self._limit(*self.frame.limits)] if self.frame.limits else []
        lines += self.frame.blocks
        passed = ", ".join(f"{name}={value}" for name, value in self.frame.constexprs.items())
        results = self.signature.results
        call_arguments = ", ".join([*operands.values(), *results.values(), *sizes, *self.signature.scalars.values()])
        warps = f", num_warps={self.frame.warps}" if self.frame.warps != "4" else ""
        lines.append(f"{name}_kernel[{self.frame.grid}]({call_arguments}, {passed}{warps})")
        lines.append(f"return {', '.join(results.values())}")
        return f"def {name}({arguments}):\n" + indent("\n".join(lines), TAB) + "\n"

    def _limit(self, condition: str, message: str) -> str:
        return f'if {condition}:\n{TAB}raise ValueError(f"{message}")'

    def _shape(self) -> str:
        domain = self.group.domain
        operands = self.signature.operands
        for value, name in operands.items():
            if value.shape == domain:
                return f"{name}.shape"
        return f"torch.broadcast_shapes({', '.join(f'{name}.shape' for name in operands.values())})"

    def _size_lines(self, sizes: list[str]) -> tuple[list[str], str]:
        lines = []
        launch = set(sizes) | _words(self.frame.grid + " ".join(self.frame.blocks) + " ".join(self.frame.limits))
        for axis in self.frame.layout.axes:
            if axis.size in launch:
                lines.append(f"{axis.size} = {_axis_length(axis, len(self.group.domain))}")
        if "n_elements" in launch:
            full = next((n for v, n in self.signature.operands.items() if v.shape == self.group.domain), None)
            lines.append(f"n_elements = {full or next(iter(self.signature.results.values()))}.numel()")
        return lines, "shape"

    def _allocation(self, value: Value, name: str) -> str:
        operands = self.signature.operands
        like = next((n for v, n in operands.items() if v.shape == self.group.domain), None)
        dtype = f", dtype={value.dtype}"
        first = next(iter(operands.values()))
        if value.shape == self.group.domain and value not in self.squeezed:
            if like is not None:
                source = next(v for v, n in operands.items() if n == like)
                return f"{name} = torch.empty_like({like}{dtype if source.dtype != value.dtype else ''})"
            return f"{name} = {first}.new_empty(shape{dtype if _dtype(operands, first) != value.dtype else ''})"
        dims = reduced_shape(self.group, keep=value not in self.squeezed)
        return f"{name} = {first}.new_empty({dims}{dtype if _dtype(operands, first) != value.dtype else ''})"


def shape_checks(operands: dict[Value, str], domain: Shape, source: str) -> list[str]:
    """Refuse operands that broadcast in another way than the addresses were written for."""
    return [
        f"expect_shape({name}, {expected_shape(value.shape, domain)})"
        for value, name in operands.items() if source != f"{name}.shape"
    ]


def expected_shape(shape: Shape, domain: Shape) -> str:
    """Write an operand's shape over the launcher's `shape`."""
    lead = len(domain) - len(shape)
    has = presence(shape, domain)[lead:]
    if all(present or domain[lead + index].hint == 1 for index, present in enumerate(has)):
        return "shape" if lead == 0 else f"shape[{-len(shape)}:]" if shape else "()"
    parts = [f"shape[{lead + index}]" if present else "1" for index, present in enumerate(has)]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


EXPECT_SHAPE = '''def expect_shape(tensor, shape):
    """Refuse a tensor that a kernel would read at the wrong places."""
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"this kernel takes a tensor of shape {tuple(shape)} here, not {tuple(tensor.shape)}")
'''


def _dtype(operands: dict[Value, str], name: str) -> object:
    return next(value.dtype for value, text in operands.items() if text == name)


def reduced_shape(group: Group, *, keep: bool) -> str:
    """Write the shape that is left after the reduction, over the launcher's `shape`."""
    rank, dims = len(group.domain), group.dims
    first = dims[0] if dims else rank
    if dims == tuple(range(first, rank)):
        kept = f"shape[:{first - rank}]" if first else ""
        ones = ", ".join("1" for _ in dims)
        if not keep:
            return kept or "()"
        return f"(*{kept}, {ones})" if kept else f"({ones},)"
    parts = [("1" if keep else "") if index in dims else f"shape[{index}]" for index in range(rank)]
    parts = [part for part in parts if part]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _axis_length(axis: Axis, rank: int) -> str:
    dims = axis.dims
    if len(dims) == 1:
        return f"shape[{dims[0] - rank}]" if dims[0] == rank - 1 else f"shape[{dims[0]}]"
    end = f"{dims[-1] + 1}" if dims[-1] != rank - 1 else ""
    start = f"{dims[0]}" if dims[0] else ""
    if not start and not end:
        return "math.prod(shape)"
    return f"math.prod(shape[{start}:{end}])"


def contiguous(operands: dict[Value, str]) -> list[str]:
    """Lay out what may be strided in memory as its shape says; a no-op for most tensors."""
    strided = [name for value, name in operands.items() if not value.dense]
    if not strided:
        return []
    return [f"{', '.join(strided)} = {', '.join(f'{name}.contiguous()' for name in strided)}"]


def formula(group: Group) -> str:
    """Say in PyTorch's words what the kernel computes."""
    return ", ".join(dict.fromkeys(group.steps)) or "One step"


def capital(text: str) -> str:
    """Begin a sentence."""
    return text[:1].upper() + text[1:]


def docstring(group: Group, summary: str) -> str:
    """The summary, and the user's lines that the kernel stands for."""
    lines = group.lines
    text = capital(summary).replace("\\", "\\\\").replace('"""', "'''")
    if not lines:
        return f'{TAB}"""{text}"""'
    body = "\n".join(f"{TAB}{TAB}{line}" for line in lines).replace("\\", "\\\\").replace('"""', "'''")
    return f'{TAB}"""{text}\n\n{TAB}From:\n{body}\n{TAB}"""'


def _words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))


def _assigned_in(lines: tuple[str, ...]) -> set[str]:
    return {line.split(" = ")[0].strip() for line in lines if " = " in line}


def _assigned(frame: Frame) -> set[str]:
    return _assigned_in(frame.setup) | _assigned_in(frame.step)

