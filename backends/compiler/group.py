"""A group: the operations of one kernel to be, or one call that stays on the host."""

from __future__ import annotations

from dataclasses import dataclass, field

from backends.compiler.ir import ONE, Op, Reduce, Shape, Value


@dataclass(eq=False)
class Group:
    """Operations of one kernel over `domain`; `dims` are the reduced ones; `kind` is
    "elementwise", "reduction", "split" (a two-stage reduction), "matmul" or "extern"."""

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
    def reductions(self) -> list[Reduce]:
        """The reductions, in order."""
        return [op for op in self.ops if isinstance(op, Reduce)]

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
