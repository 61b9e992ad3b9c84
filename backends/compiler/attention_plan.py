"""One attention to be written: its operands, their strides, and the names in its text."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from backends.compiler import axes
from backends.compiler.expression import Call, Index, Literal
from backends.compiler.group import Group
from backends.compiler.indexed import measures
from backends.compiler.ir import Attention, Value
from backends.compiler.signature import Signature, signature

OWN_NAMES = (
    "n_rows",
    "n_columns",
    "depth",
    "v_depth",
    "tile",
    "tiles",
    "matrix",
    "row",
    "column",
    "place",
    "d",
    "v_d",
    "scores",
    "masked",
    "highest",
    "new_highest",
    "shift",
    "shrink",
    "total",
    "weights",
    "k_inside",
    "v_inside",
    "row_inside",
    "column_inside",
    "q_rows",
    "batch",
    "group",
    "head",
    "shape",
    "block_d",
    "block_v",
    "n_heads",
    "n_groups",
)


@dataclass(frozen=True)
class Plan:
    """What the texts of the kernel and of its launcher are written from."""

    group: Group
    op: Attention
    signature: Signature
    beside: dict[Value, str]  # what the steps read besides the scores

    @property
    def batch(self) -> tuple[tuple[str, str], ...]:
        """The dimensions before rows and columns: their coordinates and lengths."""
        count = len(self.op.out.shape) - 2
        named = ["head"] if count < 2 else ["batch", "head"] if count < 3 else ["batch", "group", "head"]
        names = [f"batch_{index}" for index in range(count - len(named))] + named[len(named) - min(count, len(named)) :]
        return tuple((name, f"n_{name}s" if name != "batch" else "n_batches") for name in names)

    @property
    def result(self) -> str:
        """The result's name."""
        return next(iter(self.signature.results.values()))

    @property
    def numbers(self) -> list[str]:
        """The numbers besides sizes that the steps read."""
        return [*self.signature.measures.values(), *self.signature.scalars.values()]

    @property
    def formula(self) -> str:
        """What is computed, in a few words."""
        if self.op.kind == "plain":
            return "Weights made of q @ k.mT, times v"
        return f"{'Causal attention' if self.is_causal else 'Attention'}, softmax(scores made of q @ k.mT) @ v"

    @property
    def precision(self) -> str:
        """The argument by which float32 keeps its precision on tensor cores."""
        return ', input_precision="tf32x3"' if self.op.q.dtype == torch.float32 else ""

    @property
    def is_causal(self) -> bool:
        """True where the last step leaves each row the columns up to its own, and nothing else."""
        x = self.op.steps[-1].expr if self.op.steps and self.op.kind != "plain" else None
        if not isinstance(x, Call) or x.function != "where":
            return False
        condition, _, otherwise = x.arguments
        if not isinstance(condition, Call) or condition.function != "<=":
            return False
        places = [node.from_end for node in condition.arguments if isinstance(node, Index)]
        return places == [1, 2] and isinstance(otherwise, Literal) and otherwise.number == float("-inf")

    def presence(self, value: Value) -> tuple[bool, ...]:
        """Tell along which of the scores' dimensions an operand beside them has several elements."""
        return axes.presence(value.shape, self.op.scores.shape)

    def coordinates(self) -> list[str]:
        """Define the coordinates of the program's matrix among all."""
        lines, rest = [], "matrix"
        for name, size in self.batch[:0:-1]:
            lines.append(f"{name} = {rest} % {size}")
            rest = f"{rest} // {size}"
        return lines + ([f"{self.batch[0][0]} = {rest}"] if self.batch else [])

    def offset(self, name: str, value: Value | None = None) -> str:
        """Write how far an operand's matrix lies from its start, with a plus behind it."""
        has = self.presence(value) if value is not None else [True] * len(self.op.out.shape)
        kept = [batch for (batch, _), present in zip(self.batch, has, strict=False) if present]
        return "".join(f"{batch} * {name}_{batch}_stride + " for batch in kept)

    @property
    def strides(self) -> list[list[str]]:
        """The strides' names, an operand at a time."""
        names = [batch for batch, _ in self.batch]
        each = [[f"{letter}_{axis}_stride" for axis in (*names, "row")] for letter in "qkv"]
        for value, name in self.beside.items():
            axes_of = zip((*names, "row", "column"), self.presence(value), strict=True)
            each.append([f"{name}_{axis}_stride" for axis, has in axes_of if has])
        return each


def plan(group: Group) -> Plan:
    """Name what goes in and out of an attention's kernel."""
    op = group.ops[0]
    assert isinstance(op, Attention)
    lines = [step.origin.line for step in op.steps if step.origin.line]
    group.lines = list(dict.fromkeys([*lines, *group.lines]))
    names = signature(group, OWN_NAMES, [measure for step in op.steps for measure in measures(step.expr)])
    beside = {value: names.operands[value] for value in op.beside}
    for value, name in beside.items():
        if name in ("q", "k", "v") or value in (op.q, op.k, op.v):  # those are the factors' names
            beside[value] = names.names.unused(f"{name}_scores")
    return Plan(group, op, names, beside)
