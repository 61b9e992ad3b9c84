"""The lines between a kernel's coordinates and its end: loads, the operations in order, stores."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from backends.compiler.address import axes_of, offset
from backends.compiler.axes import Axis, address
from backends.compiler.expression import Expr, Number, Ref, compute_dtype, walk
from backends.compiler.frame import Frame
from backends.compiler.group import Group
from backends.compiler.indexed import Fold, Read
from backends.compiler.ir import Op, Pointwise, Value
from backends.compiler.signature import Signature, wishes
from backends.compiler.steps import Steps
from backends.compiler.text import TYPES, literal


class Body:
    """Writes one group's lines in a frame; remembers the names it gave and the masks it used."""

    def __init__(self, group: Group, frame: Frame, signature: Signature) -> None:
        self.group, self.frame, self.layout = group, frame, frame.layout
        self.signature = signature
        self.known: dict[Value, str] = {}  # values that exist outside the loop
        self.used_masks: set[str] = set()
        self._locals: dict[Value, str] = {}  # names of values that are neither read nor stored
        self._nodes: dict[int, str] = {}  # names of expressions that are written once

    # ---- operands -------------------------------------------------------------------------------

    def mask(self, part: str) -> str:
        """Name the mask of a part of the coordinates, and note that it is used."""
        name = self.frame.mask_of[part]
        self.used_masks |= {name} - {""}
        return name

    def _mask_along(self, axes: tuple[Axis, ...]) -> str:
        """Name the mask for an operand that has these axes."""
        joint, along = set(self.frame.line), set(axes)
        line = set(self.layout.inner) - joint or joint
        rest = set(self.layout.axes) - line - joint
        parts = [part for part, members in (("line", line), ("reduced", rest)) if along & members]
        named = {self.frame.mask_of[part] for part in parts} - {""}
        if len(named) > 1:
            return self.mask("all")
        return next((self.mask(part) for part in parts if self.frame.mask_of[part]), "")

    def _place(self, value: Value) -> tuple[str, str]:
        """Return the offset of an operand's element, and the mask that it is inside."""
        axes = self.layout.covered(value)
        if self.frame.is_flat:
            return ("offsets", self.mask("all")) if axes else ("", "")
        is_full = bool(self.layout.reduced) and set(axes) == set(self.layout.axes)
        where = address(axes, self.frame.line, self.frame.line_name)
        return where, self.mask("all") if is_full else self._mask_along(axes)

    def load(self, value: Value, names: dict[Value, str]) -> str:
        """Write the load of an operand and give it its name."""
        names[value] = self.signature.names_of[value]
        where, mask = self._place(value)
        return f"{names[value]} = {loaded(names[value], where, mask, value.dtype)}"

    def store(self, value: Value, names: Mapping[Value, str]) -> str:
        """Write the store of a result."""
        where, mask = self._place(value)
        return stored(self.signature.names_of[value], where, mask, names[value])

    def place_of(self, read: Read) -> tuple[Expr, str]:
        """Return the offset of an element that is read at a computed place, and the mask of the kernel's own place."""
        axes = axes_of(read, self.layout)
        if self.frame.is_flat:
            mask = self.mask("all") if axes else ""
        else:
            is_full = bool(self.layout.reduced) and set(axes) == set(self.layout.axes)
            mask = self.mask("all") if is_full else self._mask_along(axes)
        return offset(read, self.frame), mask

    # ---- operations -----------------------------------------------------------------------------

    def steps(self, op: Pointwise, names: dict[Value, str]) -> list[str]:
        """Write one operation: what it reads at computed places and the windows it folds, then the assignment."""
        steps = Steps(self, names)
        if op.expr.is_written_once:
            self._nodes[id(op.expr)] = self.name(op)
        text = steps.write(op.expr)
        if not any(isinstance(node, (Ref, Read, Fold)) for node in walk(op.expr)) and op.out.dtype != torch.bool:
            text = f"tl.full({self.frame.tile}, {text}, {TYPES[compute_dtype(op.out.dtype)]})"
        names[op.out] = self.name(op)
        return [*steps.lines, *([f"{names[op.out]} = {text}"] if names[op.out] != text else [])]

    def indices(self) -> dict[int, str]:
        """The coordinates' names; one pass over memory has the offset alone, and at most one dimension to index."""
        names = self.layout.index_names()
        return dict.fromkeys(names, "offsets") if self.frame.is_flat else names

    def name(self, op: Op) -> str:
        """Name what an operation makes: as the result it is, else by the user's line or by its role."""
        if op.out in self.signature.names_of:
            return self.signature.names_of[op.out]
        if op.out not in self._locals:
            self._locals[op.out] = self.signature.names.unused(*wishes(op, self.group))
        return self._locals[op.out]

    def node_name(self, node: Expr, wish: str) -> str:
        """Name an expression that is written once, the same each time."""
        if id(node) not in self._nodes:
            self._nodes[id(node)] = self.signature.names.unused(wish)
        return self._nodes[id(node)]

    def element_name(self, read: Read) -> str:
        """Name an element that is read as its tensor, where no other element of it is."""
        operand = self.signature.names_of[read.value]
        is_free = read.value not in self.group.in_place and operand not in self._nodes.values()
        if id(read) not in self._nodes and is_free:
            self._nodes[id(read)] = operand
        return self.node_name(read, operand)

    # ---- masks ----------------------------------------------------------------------------------

    def mask_lines(self) -> list[str]:
        """Define the masks that were used, and those they are made of."""
        needed = set(self.used_masks)
        for name in self.used_masks:
            needed |= set(self.frame.masks) & set(self.frame.masks[name].split())
        return [f"{name} = {text}" for name, text in self.frame.masks.items() if name in needed]


def loaded(name: str, where: str, mask: str, dtype: torch.dtype, fill: Number = 0) -> str:
    """Write the load of an element, widened from the half types, and as the one bit that Triton's bool is."""
    other = str(int(fill)) if dtype == torch.bool else literal(fill, compute_dtype(dtype))
    guard = f", mask={mask}, other={other}" if mask else ""
    widen = ".to(tl.float32)" if dtype in (torch.float16, torch.bfloat16) else ""
    narrow = ".to(tl.int1)" if dtype == torch.bool else ""
    return f"tl.load({name}_ptr{f' + {where}' if where else ''}{guard}){widen}{narrow}"


def stored(name: str, where: str, mask: str, value: str) -> str:
    """Write the store of an element; the pointer's dtype rounds it."""
    return f"tl.store({name}_ptr{f' + {where}' if where else ''}, {value}{f', mask={mask}' if mask else ''})"
