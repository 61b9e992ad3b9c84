"""The builder that rules write operations with: names, shapes, dtypes, and broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from backends.compiler import seethrough
from backends.compiler.broadcast import broadcast, runs_of
from backends.compiler.expression import (
    Expr,
    Index,
    Literal,
    Number,
    Operand,
    Ref,
    Scalar,
    cast,
    compute_dtype,
    walk,
)
from backends.compiler.host import Host, state_text
from backends.compiler.ir import ONE, Extern, MatMul, Op, Origin, Pointwise, Reduce, Shape, Size, Value
from backends.compiler.rules import Declined
from backends.compiler.views import Views


class Builder(Views):
    """Collects operations; `result` describes what the operator being lowered returns in PyTorch."""

    def __init__(self, host: Host, program_writes_in_place: bool) -> None:
        self.host = host
        self.program_writes_in_place = program_writes_in_place
        self.ops: list[Op] = []
        self.literals: dict[Value, Number] = {}  # single numbers that forward makes tensors of
        self.guards: dict[str, str] = {}  # condition → what to tell the person
        self.origin = Origin()
        self.result: Value | None = None  # shape and dtype as traced, of the operator at hand

    # ---- elements -------------------------------------------------------------------------------

    def element(self, operand: Value | Number | Scalar, dtype: torch.dtype) -> Expr:
        """Read an operand as one element converted to the dtype the kernel computes in."""
        target = compute_dtype(dtype)
        if isinstance(operand, Value) and operand in self.literals:
            return cast(Literal(compute_dtype(operand.dtype), self.literals[operand]), target)
        if isinstance(operand, Value):
            return cast(Ref(compute_dtype(operand.dtype), operand), target)
        if isinstance(operand, Scalar):
            if target == torch.float64 and isinstance(operand.number, float):
                return Literal(target, operand.number)  # a kernel argument would be rounded to float32
            return Scalar(target, operand.host, operand.number)
        return Literal(target, float(operand) if target.is_floating_point else operand)

    def index(self, x: Value, dim: int) -> Expr:
        """Read the coordinate along a dimension of x."""
        if x.shape[dim].hint == 1:
            return Literal(torch.int64, 0)
        return Index(torch.int64, len(x.shape) - dim)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the operator's result."""
        return self._result.dtype

    @property
    def _result(self) -> Value:
        assert self.result is not None
        return self.result

    # ---- what the file must hold to -------------------------------------------------------------

    def pin(self, scalar: Scalar) -> Number:
        """Use a run-time number's value; the file refuses another one."""
        self.guards[f"{scalar.host} != {scalar.number!r}"] = f"written for {scalar.host} = {scalar.number!r}"
        return scalar.number

    def refuse_training(self) -> None:
        """Say that what follows holds in evaluation mode only; of no matter where the user's call fixes the mode."""
        if self.host.module.get_submodule(self.origin.module).training:
            return  # captured in training mode, and yet the operator was told otherwise
        self.guards[f"{state_text(self.origin.module)}.training"] = "written for evaluation mode: call .eval() first"

    def size_text(self, size: Size) -> str:
        """Write a size as host text."""
        return self.host.size(size)

    # ---- operations -----------------------------------------------------------------------------

    def pointwise(self, label: str, expr: Operand, dtype: torch.dtype | None = None) -> Value:
        """Compute `expr` for every element of the operands' broadcast shape; store as `dtype`."""
        dtype = dtype or self.dtype
        tree = expr if isinstance(expr, Expr) else Literal(compute_dtype(dtype), expr)
        tree, restore = seethrough.hoist(self, cast(tree, compute_dtype(dtype)))
        shape = broadcast([node.value.shape for node in walk(tree) if isinstance(node, Ref)])
        return restore(self._add(Pointwise, label, shape, dtype, expr=tree))

    def reduce(
        self, kind: str, source: Value, dims: Sequence[int], dtype: torch.dtype | None = None, *,
        label: str = "", correction: float = 0.0,
    ) -> Value:
        """Combine over `dims`, which stay as size 1."""
        rank = len(source.shape)
        wanted = tuple(sorted(dim % rank for dim in dims)) if rank else ()
        if all(source.shape[dim].hint == 1 for dim in wanted):
            return self._reduce_nothing(kind, source, dtype or source.dtype, label or kind, correction)
        runs = runs_of(source.shape, wanted)
        if len(runs) > 1:
            return self._reduce_in_steps(kind, source, runs, dtype or source.dtype, label or kind, correction)
        shape = tuple(ONE if index in wanted else size for index, size in enumerate(source.shape))
        return self._add(
            Reduce, label or kind, shape, dtype or source.dtype,
            kind=kind, source=source, dims=wanted, correction=correction,
        )

    def _reduce_nothing(self, kind: str, source: Value, dtype: torch.dtype, label: str, correction: float) -> Value:
        """One element stands for itself."""
        if correction or kind in ("argmax", "argmin"):
            raise Declined(f"{kind} over a single element")
        return self.pointwise(label, self.element(source, dtype), dtype)

    def _reduce_in_steps(
        self, kind: str, source: Value, runs: list[tuple[int, ...]], dtype: torch.dtype, label: str, correction: float
    ) -> Value:
        """Reduce dimensions that lie apart one run after the other, the last in memory first."""
        if kind in ("argmax", "argmin"):
            raise Declined(f"{kind} over dimensions that lie apart")
        between = compute_dtype(dtype)
        *first, last = reversed(runs)
        value = source
        for run in first:
            value = self.reduce(kind, value, run, between, label=f"_{kind}_of_some")
        if not correction:
            return self.reduce(kind, value, last, dtype, label=label)
        averaged = self.reduce(kind, value, last, between, label=f"_{kind}_of_some")
        count = " * ".join(self.size_text(source.shape[dim]) for run in runs for dim in run)
        number = math.prod(source.shape[dim].hint for run in runs for dim in run)
        n = Scalar(between, count, number)
        element = self.element(averaged, between)
        return self.pointwise(label, element * (n / (n - correction)), dtype)

    def matmul(self, label: str, a: Value, b: Value, *, b_is_nk: bool, dtype: torch.dtype) -> Value:
        """Multiply the last two dimensions; leading ones broadcast."""
        n = b.shape[-2] if b_is_nk else b.shape[-1]
        batch = broadcast([a.shape[:-2], b.shape[:-2]])
        return self._add(MatMul, label, (*batch, a.shape[-2], n), dtype, a=a, b=b, b_is_nk=b_is_nk)

    def constant(self, label: str, like: Value, text: str, number: Number) -> Value:
        """Allocate, on the host, a tensor of one number; a kernel that reads it has the number itself."""
        out = self._add(
            Extern, label, self._result.shape, self.dtype, text=text, operands=[like], reason="", is_work=False
        )
        out.dense, self.literals[out] = like.dense, number
        return out

    def _add(self, make: type[Op], label: str, shape: Shape, dtype: torch.dtype, **fields: Any) -> Value:
        out = Value(label, shape, dtype)
        out.op = make(label=label, out=out, origin=self.origin, **fields)
        self.ops.append(out.op)
        return out
