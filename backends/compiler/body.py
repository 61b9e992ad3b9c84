"""The lines between a kernel's coordinates and its end: loads, the operations in order, stores."""

from __future__ import annotations

import torch

from backends.compiler.axes import Axis, Layout, address
from backends.compiler.expression import Call, Expr, Literal, Ref, compute_dtype, walk
from backends.compiler.frames import Frame
from backends.compiler.fuse import Group
from backends.compiler.ir import Op, Pointwise, Reduce, Value
from backends.compiler.naming import Names
from backends.compiler.text import TYPES, Writer, literal

NAN_NOTE = "a NaN anywhere makes the result NaN, as in PyTorch; the reduction alone would skip it"


class Body:
    """Writes one group's lines in a frame."""

    def __init__(
        self, group: Group, frame: Frame, names: Names, pointers: dict[Value, str], scalars: dict[str, str]
    ) -> None:
        self.group, self.frame, self.names, self.pointers = group, frame, names, pointers
        self.layout: Layout = frame.layout
        self.known: dict[Value, str] = {}  # values that exist outside the loop
        self.used_masks: set[str] = set()
        self.reduced = _reduced(group)
        self.elements: dict[Value, str] = {}  # names reserved for operands
        self.writer = Writer(self.known, scalars, self._indices())

    def _indices(self) -> dict[int, str]:
        """The coordinates' names; one pass over memory has the offset alone, and at most one dimension to index."""
        names = self.layout.index_names()
        return dict.fromkeys(names, "offsets") if self.frame.flat else names

    # ---- operands -------------------------------------------------------------------------------

    def mask(self, axes: tuple[Axis, ...], *, is_full: bool) -> str:
        """Name the mask for an operand that has these axes."""
        if is_full:
            return self.use(self.frame.mask_of["all"])
        line = set(self.layout.inner if self.layout.inner else self.frame.line)
        along = set(axes)
        rest = set(self.layout.axes) - line - (set(self.frame.line) if self.layout.inner else set())
        parts = [
            self.frame.mask_of[part]
            for part, members in (("line", line), ("reduced", rest)) if along & members
        ]
        parts = [part for part in dict.fromkeys(parts) if part]
        if len(parts) > 1:
            return self.use(self.frame.mask_of["all"])
        return self.use(parts[0]) if parts else ""

    def use(self, name: str) -> str:
        if name:
            self.used_masks.add(name)
        return name

    def _place(self, value: Value) -> tuple[str, str]:
        axes = self.layout.covered(value)
        if self.frame.flat:
            return ("offsets", self.mask(axes, is_full=True)) if axes else ("", "")
        where = address(axes, self.frame.line, self.frame.line_name)
        return where, self.mask(axes, is_full=set(axes) == set(self.layout.axes) and bool(self.layout.reduced))

    def load(self, value: Value, names: dict[Value, str]) -> str:
        """Write the load of an operand and give it its name."""
        name = self.pointers[value].removesuffix("_ptr")
        names[value] = name
        where, mask = self._place(value)
        pointer = self.pointers[value] + (f" + {where}" if where else "")
        other = literal(0, compute_dtype(value.dtype)) if value.dtype != torch.bool else "0"
        guard = f", mask={mask}, other={other}" if mask else ""
        widen = ".to(tl.float32)" if value.dtype in (torch.float16, torch.bfloat16) else ""
        narrow = ".to(tl.int1)" if value.dtype == torch.bool else ""
        return f"{name} = tl.load({pointer}{guard}){widen}{narrow}"

    def store(self, value: Value, names: dict[Value, str]) -> str:
        """Write the store of a result."""
        where, mask = self._place(value)
        guard = f", mask={mask}" if mask else ""
        pointer = self.pointers[value] + (f" + {where}" if where else "")
        return f"tl.store({pointer}, {names[value]}{guard})"

    # ---- operations -----------------------------------------------------------------------------

    def compute(self, op: Pointwise, names: dict[Value, str]) -> str:
        """Write one operation as an assignment."""
        writer = Writer(names, self.writer.scalars, self.writer.indices)
        writer.helpers = self.writer.helpers
        text = writer.write(op.expr)
        if not any(isinstance(node, Ref) for node in walk(op.expr)) and op.out.dtype != torch.bool:
            text = f"tl.full({self.frame.tile}, {text}, {TYPES[compute_dtype(op.out.dtype)]})"
        names[op.out] = self.name(op)
        return f"{names[op.out]} = {text}"

    def name(self, op: Op) -> str:
        if op.out in self.pointers:
            return self.pointers[op.out].removesuffix("_ptr")
        if op.out not in self.elements:
            self.elements[op.out] = self.names.unused(*wishes(op, self.group))
        return self.elements[op.out]

    def reduce(self, op: Reduce, names: dict[Value, str]) -> list[str]:
        """Write a reduction of the tile at hand."""
        masked = self.masked(op, names)
        result = self.name(op)
        names[op.out] = result
        return self.finish(op, result, masked)

    def masked(self, op: Reduce, names: dict[Value, str]) -> str:
        """The source with what lies outside the tensor replaced by the reduction's neutral element."""
        neutral = identity(op)
        source = names[op.source]
        if op.kind in ("sum", "mean") and zero_outside(op.source, self.group):
            return source
        mask = self.use(self.frame.mask_of["all"])
        return f"tl.where({mask}, {source}, {neutral})"

    def finish(self, op: Reduce, result: str, tile: str) -> list[str]:
        """Write the reduction of a tile of values that are neutral outside the tensor."""
        axis = self.frame.axis
        count = " * ".join(a.size for a in self.layout.reduced) or "1"
        if op.kind == "sum":
            return [f"{result} = tl.sum({tile}, {axis})"]
        if op.kind == "mean":
            less = f"({count} - {literal(op.correction, torch.float32)})" if op.correction else count
            less = f"({less})" if " * " in less and not less.startswith("(") else less
            return [f"{result} = tl.sum({tile}, {axis}) / {less}"]
        if op.kind in ("argmax", "argmin"):
            return self._position(op, result, tile, self._place_name(), axis)
        function = "tl.max" if op.kind.startswith("max") else "tl.min"
        if op.kind == "max_skipping_nan" or not op.source.dtype.is_floating_point:
            return [f"{result} = {function}({tile}, {axis})"]
        values = self.names.unused(f"{result}_of")
        return [
            f"{values} = {tile}",
            f"has_nan = tl.max(({values} != {values}).to(tl.int32), {axis}) > 0",
            f'{result} = tl.where(has_nan, float("nan"), {function}({values}, {axis}))  # {NAN_NOTE}',
        ]

    def _place_name(self) -> str:
        return self.layout.reduced[-1].name if len(self.layout.reduced) == 1 else "place"

    def _position(self, op: Reduce, result: str, tile: str, place: str, axis: str) -> list[str]:
        values, best = self.names.unused("candidates"), self.names.unused("best")
        function, far = ("tl.max", "2147483647")
        if op.kind == "argmin":
            function = "tl.min"
        lines = [f"{values} = {tile}"]
        hit = f"{values} == {best}"
        if op.source.dtype.is_floating_point:
            lines.append(f"has_nan = tl.max(({values} != {values}).to(tl.int32), {axis}) > 0")
            hit = f"tl.where(has_nan, {values} != {values}, {hit})"  # the first NaN wins, as in PyTorch
        lines.append(f"{best} = {function}({values}, {axis})")
        mask = self.use(self.frame.mask_of["all"])
        lines.append(f"{result} = tl.min(tl.where({mask} & ({hit}), {place}, {far}), {axis}).to(tl.int64)")
        return lines

    # ---- the whole ------------------------------------------------------------------------------

    def whole(self) -> list[str]:
        """Write everything for a tile that is read once."""
        lines: list[str] = []
        for op in self.group.ops:
            lines += [self.load(v, self.known) for v in op.inputs if v not in self.known]
            if isinstance(op, Reduce):
                lines += self.reduce(op, self.known)
            elif isinstance(op, Pointwise):
                lines.append(self.compute(op, self.known))
        return lines + [self.store(value, self.known) for value in self.group.outputs]

    def mask_lines(self) -> list[str]:
        """Define the masks that were used, and those they are made of."""
        needed = set(self.used_masks)
        for name in list(needed):
            needed |= {part for part in self.frame.masks if part in self.frame.masks[name].split()}
        return [f"{name} = {text}" for name, text in self.frame.masks.items() if name in needed]


def _reduced(group: Group) -> set[Value]:
    found: set[Value] = set()
    for op in group.ops:
        if isinstance(op, Reduce) or any(value in found for value in op.inputs):
            found.add(op.out)
    return found


def wishes(op: Op, group: Group) -> tuple[str, ...]:
    """The user's own name if this is the line's last operation, else PyTorch's name or the step's role."""
    later = group.ops[group.ops.index(op) + 1 :]
    last = not any(other.origin.lineno == op.origin.lineno for other in later)
    own = op.label.strip("_")
    return (op.origin.target, own) if op.origin.target and last and not group.is_shared else (own,)


def identity(op: Reduce) -> str:
    """The number that changes nothing."""
    dtype = compute_dtype(op.source.dtype)
    if op.kind in ("sum", "mean"):
        return literal(0, dtype)
    high = op.kind in ("min", "argmin")
    if dtype.is_floating_point:
        return 'float("inf")' if high else 'float("-inf")'
    limits = torch.iinfo(dtype)
    return str(limits.max if high else limits.min)


def zero_outside(value: Value, group: Group) -> bool:
    """True if lanes outside the tensor hold 0 already: loads put it there, and products keep it."""
    if value in group.leaves:
        return value.shape == group.domain
    op = value.op
    return isinstance(op, Pointwise) and _zero(op.expr, group)


def _zero(x: Expr, group: Group) -> bool:
    if isinstance(x, Ref):
        return zero_outside(x.value, group)
    if isinstance(x, Literal):
        return x.number == 0
    if isinstance(x, Call):
        zeros = [_zero(argument, group) for argument in x.arguments]
        if x.function == "*":
            return all(zeros)  # one factor may be infinite outside
        return x.function in ("+", "-", "neg", "abs", "cast") and all(zeros)
    return False
