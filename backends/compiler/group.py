"""A group: the operations of one kernel to be, or one call that stays on the host."""

from __future__ import annotations

from dataclasses import dataclass, field

from backends.compiler.indexed import Read, reads, refuses
from backends.compiler.ir import ONE, Op, Order, Pointwise, Reduce, Scan, Shape, Value


@dataclass(eq=False)
class Group:
    """Operations of one kernel over `domain`; `dims` are the reduced ones; `kind` is
    "elementwise", "reduction", "split" (a two-stage reduction), "scan", "order" (a sort, with reductions of its rows),
    "scatter", "matmul", "convolution", "attention" or "extern"."""

    kind: str
    domain: Shape
    epoch: int
    ops: list[Op] = field(default_factory=list)
    dims: tuple[int, ...] = ()
    outputs: list[Value] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)  # PyTorch's names of what is computed, in order
    lines: list[str] = field(default_factory=list)  # the user's lines it stands for
    is_shared: bool = False  # one text for several places: its names come from roles, not from one place's lines

    @property
    def row_shape(self) -> Shape:
        """The domain with the reduced dimensions gone to 1."""
        return tuple(ONE if index in self.dims else size for index, size in enumerate(self.domain))

    @property
    def values(self) -> set[Value]:
        """Everything made here."""
        return {op.out for op in self.ops}

    @property
    def leaves(self) -> list[Value]:
        """What is read from memory, in order of first use."""
        made = self.values
        read = dict.fromkeys(value for op in self.ops for value in op.inputs)
        return [value for value in read if value not in made]

    @property
    def in_place(self) -> list[Value]:
        """Those read from memory at the kernel's own place."""
        made = self.values
        read = dict.fromkeys(value for op in self.ops for value in op.in_place)
        return [value for value in read if value not in made]

    @property
    def elsewhere(self) -> set[Value]:
        """What is read at computed places: nothing made here can be."""
        return {value for op in self.ops for value in op.elsewhere}

    @property
    def reads(self) -> list[Read]:
        """The readings at computed places."""
        return [read for op in self.ops if isinstance(op, Pointwise) for read in reads(op.expr)]

    @property
    def refuses(self) -> bool:
        """True where the kernel stops at a place that does not exist."""
        return any(isinstance(op, Pointwise) and refuses(op.expr) for op in self.ops)

    @property
    def reductions(self) -> list[Reduce]:
        """The reductions, in order."""
        return [op for op in self.ops if isinstance(op, Reduce)]

    @property
    def scans(self) -> list[Scan]:
        """The scans, in order."""
        return [op for op in self.ops if isinstance(op, Scan)]

    @property
    def orders(self) -> list[Order]:
        """The sorts, in order."""
        return [op for op in self.ops if isinstance(op, Order)]

    @property
    def reduced(self) -> set[Value]:
        """Results of the reductions, and what was computed from them."""
        found: set[Value] = set()
        for op in self.ops:
            if isinstance(op, Reduce) or any(value in found for value in op.inputs):
                found.add(op.out)
        return found

    @property
    def tail(self) -> list[Op]:
        """The operations that read a reduced result."""
        reduced = self.reduced
        return [op for op in self.ops if any(value in reduced for value in op.inputs)]

    def is_last_of_its_line(self, op: Op) -> bool:
        """Tell whether no later operation here comes from the same line of the user's."""
        later = self.ops[self.ops.index(op) + 1 :]
        return not any(other.origin.lineno == op.origin.lineno for other in later)
