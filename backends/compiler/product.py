"""One matrix product with its elementwise tail, and the names in its text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from backends.compiler.group import Group
from backends.compiler.ir import MatMul, Value
from backends.compiler.signature import Signature, signature


@dataclass(frozen=True)
class Product:
    """One product with its tail, and the names in its text."""

    group: Group
    op: MatMul
    signature: Signature
    is_batched: bool  # else b is one matrix for every leading index of a, which then is one tall matrix

    @property
    def is_single(self) -> bool:
        """True for float32, which the tensor cores multiply in three parts."""
        return self.op.a.dtype == torch.float32

    @property
    def tail_operands(self) -> dict[Value, str]:
        """What the tail reads."""
        read = {value for op in self.group.ops[1:] for value in op.inputs}
        return {value: name for value, name in self.signature.operands.items() if value in read}

    @property
    def factor_pointers(self) -> tuple[str, str]:
        """The factors' pointers; a tensor that is read twice is passed twice, because the layouts may differ."""
        is_square, tail = self.op.a is self.op.b, self.tail_operands
        a, b = (
            letter if is_square or factor in tail else self.signature.operands[factor]
            for letter, factor in (("a", self.op.a), ("b", self.op.b))
        )
        return f"{a}_ptr", f"{b}_ptr"


def named(group: Group, taken: Iterable[str]) -> Product:
    """Name what goes in and out of a product's kernel, apart from the names that its text has itself."""
    op = group.ops[0]
    assert isinstance(op, MatMul)
    return Product(group, op, signature(group, taken), is_batched(op))


def coordinates(op: MatMul) -> dict[int, str]:
    """Name the coordinates that a program has of its results, by dimension counted from the last.

    Leading dimensions that count as rows, or several that count as one batch, have none of their own.
    """
    rank = len(op.out.shape)
    if rank == 2:
        return {2: "row", 1: "column"}
    if not is_batched(op):
        return {1: "column"}
    return {3: "batch", 2: "row", 1: "column"} if rank == 3 else {2: "row", 1: "column"}


def is_batched(op: MatMul) -> bool:
    """Tell whether both factors have leading dimensions."""
    return len(op.out.shape) > 2 and len(op.b.shape) > 2
