"""The builder that rules write operations with: names, shapes, dtypes, and broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from backends.compiler import attend, ranges, seethrough, through
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
from backends.compiler.indexed import Measure, Read, measure, reads
from backends.compiler.ir import (
    ONE,
    Convolution,
    Extern,
    MatMul,
    Op,
    Order,
    Origin,
    Pieces,
    Pointwise,
    Reduce,
    Scan,
    Scatter,
    Shape,
    Size,
    Value,
    View,
    root,
)
from backends.compiler.rules import Declined
from backends.compiler.schedule import Schedule
from backends.compiler.sizetext import NoName
from backends.compiler.views import Views

TRAINING_ONLY = "written for training mode: call .train() first"


def _is_number(value: Value, dim: int) -> bool:
    """Tell whether a length is a number of the module's own, whatever the inputs' sizes."""
    op = value.op
    return isinstance(op, Pointwise) and op.extents is not None and isinstance(op.extents[dim], Literal)


def _is_sure(value: Value, extents: Sequence[Expr]) -> bool:
    """Tell whether a tensor that is not read has the lengths of the result by itself."""
    numbers = {extent.number for extent in extents if isinstance(extent, (Literal, Measure))}
    return all(size.symbol is not None or size.hint == 1 or size.hint in numbers for size in value.shape)


class Builder(Views):
    """Collects operations; `result` describes what the operator being lowered returns in PyTorch."""

    def __init__(self, host: Host, program_writes_in_place: bool, schedule: Schedule) -> None:
        self.host, self.schedule = host, schedule
        self.program_writes_in_place = program_writes_in_place
        self.ops: list[Op] = []
        self.literals: dict[Value, Number] = {}  # single numbers that forward makes tensors of
        self.guards: dict[str, str] = {}  # condition → what to tell the person
        self.ties: dict[str, str] = {}  # guards that stay whatever becomes of the operator that asked for them
        self.pieces: list[Pieces] = []
        self.writable: set[Value] = set()  # statistics that nothing but a normalisation reads
        self.assigned: dict[Value, Value] = {}  # what the operator at hand has written → what is there now
        self.joined: dict[tuple[int, tuple[Value, ...]], Value] = {}  # a dimension and tensors → those in one
        self.origin = Origin()
        self.result: Value | None = None  # shape and dtype as traced, of the operator at hand
        self.results: list[Value] = []  # all of them, where it returns several
        self.rounds = 0  # how many parts a loop takes of the tensor, each for a product of its own

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
                if "shape[" in operand.host:
                    raise Declined("a number of the sizes', which a kernel takes in float32")
                return Literal(target, operand.number)  # a kernel argument would be rounded to float32
            return Scalar(target, operand.host, operand.number)
        return Literal(target, float(operand) if target.is_floating_point else operand)

    def place(self, dim: int) -> Expr:
        """Read the coordinate along a dimension of the result."""
        shape = self._result.shape
        return Literal(torch.int64, 0) if shape[dim].hint == 1 else Index(torch.int64, len(shape) - dim % len(shape))

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
    def shape(self) -> Shape:
        """The shape of the operator's result."""
        return self._result.shape

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

    def refuse_evaluation(self) -> None:
        """Say that what follows holds in training mode only; of no matter where the user's call fixes the mode."""
        if self.host.module.get_submodule(self.origin.module).training:
            self.guards[f"not {state_text(self.origin.module)}.training"] = TRAINING_ONLY

    def require(self, condition: Any) -> None:
        """Hold the file to a condition on the inputs' sizes, that tracing found true."""
        self.guards.update(self._sized(condition))

    def tie(self, equality: Any) -> None:
        """Hold the file to sizes that tracing takes for each other from here on."""
        self.ties.update(self._sized(equality))

    def _sized(self, condition: Any) -> dict[str, str]:
        text = self.host.condition(condition)
        return {f"not ({text})": f"written for sizes with {text}"}

    def expect_pieces(self, x: Value, dim: int, text: str) -> None:
        """Hold the file to as many pieces of x as there are now: `text` counts them, {0} being its length."""
        self._expect(measure(text, len(self.results), "", (x, dim)), x, "expect_pieces")

    def expect_length(self, x: Value, dim: int, text: str = "{0}", number: int | None = None) -> None:
        """Hold the file to the length that x has along a dimension now, or to a number made of it."""
        number = x.shape[dim].hint if number is None else number
        self._expect(measure(text, number, "", (x, dim)), x, "expect_length")

    def _expect(self, number: Measure, x: Value, check: str) -> None:
        try:
            found = through.rooted(number, (root(x),))
        except through.Unwritten:
            raise Declined("how many tensors it gives depends on a length that only forward knows") from None
        if isinstance(found, Measure) and not all(_is_number(*pair) for pair in found.lengths):
            self.pieces.append(Pieces(root(x), found, check))

    def size_text(self, size: Size) -> str:
        """Write a size as host text."""
        return self.host.size(size)

    def count(self, sizes: Sequence[Size], dtype: torch.dtype) -> Expr:
        """Read how many elements sizes have together, as a number of the kernel."""
        texts = [f"({text})" if " " in text else text for text in map(self.size_text, sizes)]
        number, product = math.prod(size.hint for size in sizes), " * ".join(texts)
        if dtype == torch.float64:  # beside a whole number, Triton would compute in float32
            return cast(Scalar(torch.int64, product, number), dtype)
        return Scalar(dtype, product, number)

    def read(
        self,
        x: Value,
        places: Sequence[Expr],
        valid: Expr | None = None,
        fill: Number = 0,
        *,
        wish: str = "",
        is_checked: bool = False,
    ) -> Expr:
        """Read the element at computed places, behind the views of x that move it."""
        source, indices = x, tuple(places)
        if through.moves(x):
            with suppress(through.Unwritten):
                source, indices = through.mapped(x, places)
        return Read(compute_dtype(x.dtype), source, indices, valid, fill, wish, is_checked)

    def extent(self, size: Size) -> Expr:
        """Write a size as a length of the result's: a number of the module's, or one that forward passes."""
        if size.symbol is None:
            return Literal(torch.int64, size.hint)
        return Scalar(torch.int64, self.size_text(size), size.hint)

    # ---- operations -----------------------------------------------------------------------------

    def pointwise(self, label: str, expr: Operand, dtype: torch.dtype | None = None) -> Value:
        """Compute `expr` for every element of the operands' broadcast shape; store as `dtype`."""
        dtype = dtype or self.dtype
        tree = expr if isinstance(expr, Expr) else Literal(compute_dtype(dtype), expr)
        if reads(tree):
            raise ValueError("what is read at computed places has a shape of its own: see mapped")
        tree, whole = self._without_ranges(cast(tree, compute_dtype(dtype)))
        tree, restore = seethrough.hoist(self, tree)
        operands = list(dict.fromkeys(node.value for node in walk(tree) if isinstance(node, Ref)))
        # of sizes that are equal though written differently, that of what is computed here: it is a kernel's domain
        shape = whole or broadcast([operand.shape for operand in sorted(operands, key=through.moves)])
        seen = through.read_through(tree, shape)
        if seen is tree and not whole:
            made = self._add(Pointwise, label, shape, dtype, expr=tree)
            if operands and all(map(ranges.is_free, operands)) and not self.program_writes_in_place:
                with suppress(NoName):
                    made.formula = ranges.combined(tree, [self.extent(size) for size in shape])
            return restore(made)
        lengths = through.extents(operands, shape)
        extents = tuple(known or self.extent(size) for known, size in zip(lengths, shape, strict=True))
        claims = tuple(through.claims(operands, shape))
        return restore(self._add(Pointwise, label, shape, dtype, expr=seen, extents=extents, claims=claims))

    def _without_ranges(self, tree: Expr) -> tuple[Expr, Shape | None]:
        """Compute what follows from the place alone; return the result's shape too, where only that gives it."""
        operands = list(dict.fromkeys(node.value for node in walk(tree) if isinstance(node, Ref)))
        beside = [operand for operand in operands if not ranges.is_free(operand)]
        free = [operand for operand in operands if operand not in beside and ranges.fits(operand, beside)]
        if not beside or not free:
            return tree, None
        shape = broadcast([operand.shape for operand in operands])
        kept = broadcast([operand.shape for operand in operands if operand not in free])
        return ranges.inserted(tree, free), shape if len(kept) < len(shape) or kept != shape else None

    def mapped(
        self,
        label: str,
        expr: Expr,
        extents: Sequence[Expr],
        *,
        dtype: torch.dtype | None = None,
        shape: Shape | None = None,
        coordinates: Sequence[str] = (),
        claims: Sequence[tuple[Expr, Expr]] = (),
    ) -> Value:
        """Compute `expr` for every place of a shape: of the operator's result, unless told.

        `extents` write that shape over the operands'; `coordinates` name its last dimensions; `claims` are pairs of
        lengths that the file is held to as equal.
        """
        dtype = dtype or self.dtype
        roots = list(dict.fromkeys(node.value for node in walk(expr) if isinstance(node, (Ref, Read))))
        free = [value for value in roots if ranges.is_free(value) and _is_sure(value, extents)]
        if len(free) < len(roots):
            expr = ranges.inserted(expr, free)
            roots = [node.value for node in walk(expr) if isinstance(node, (Ref, Read))]
        try:
            expr, *extents = (through.rooted(tree, roots) for tree in (expr, *extents))
            sides = tuple((through.rooted(one, roots), through.rooted(other, roots)) for one, other in claims)
        except through.Unwritten:
            raise Declined("a length that only forward knows") from None
        names = tuple((len(coordinates) - index, name) for index, name in enumerate(coordinates))
        return self._add(
            Pointwise,
            label,
            shape or self._result.shape,
            dtype,
            expr=cast(expr, compute_dtype(dtype)),
            extents=tuple(extents),
            coordinates=names,
            claims=sides,
        )

    def assign(self, target: Value, label: str, like: Value, expr: Expr) -> None:
        """Write to the module's own statistics in place: `expr` reads `target`, seen in the shape of `like`."""
        state = target
        while state not in self.writable and isinstance(state.op, View):
            state = state.op.source
        if state not in self.writable or not target.dense:
            raise Declined("writes to statistics that are read elsewhere too")
        tree = cast(expr, compute_dtype(target.dtype))
        new = self._add(Pointwise, label, like.shape, target.dtype, expr=tree, into=target)
        after = self.view(new, state.shape, "{0}")
        after.host = new.host = state.host
        self.writable.add(after)
        self.assigned[state] = after

    def reduce(
        self,
        kind: str,
        source: Value,
        dims: Sequence[int],
        dtype: torch.dtype | None = None,
        *,
        label: str = "",
        correction: float = 0.0,
    ) -> Value:
        """Combine over `dims`, which stay as size 1."""
        if through.moves(source):
            source = self.pointwise("_laid_out", self.element(source, source.dtype), source.dtype)
        rank = len(source.shape)
        wanted = tuple(sorted(dim % rank for dim in dims)) if rank else ()
        if all(source.shape[dim].hint == 1 for dim in wanted):
            return self._reduce_nothing(kind, source, dtype or source.dtype, label or kind, correction)
        runs = runs_of(source.shape, wanted)
        if len(runs) > 1:
            return self._reduce_in_steps(kind, source, runs, dtype or source.dtype, label or kind, correction)
        shape = tuple(ONE if index in wanted else size for index, size in enumerate(source.shape))
        return self._add(
            Reduce,
            label or kind,
            shape,
            dtype or source.dtype,
            kind=kind,
            source=source,
            dims=wanted,
            correction=correction,
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
        n = self.count([source.shape[dim] for run in runs for dim in run], between)
        element = self.element(averaged, between)
        return self.pointwise(label, element * (n / (n - correction)), dtype)

    def scan(
        self,
        kind: str,
        source: Value,
        dim: int,
        dtype: torch.dtype,
        *,
        label: str,
        reverse: bool = False,
        exclusive: bool = False,
    ) -> Value:
        """Combine along `dim` up to each place."""
        return self._add(
            Scan, label, source.shape, dtype, kind=kind, source=source, dim=dim, reverse=reverse, exclusive=exclusive
        )

    def order(
        self, labels: tuple[str, str], x: Value, *, is_descending: bool, count: int | None = None
    ) -> tuple[Value, Value]:
        """Sort along the last dimension; return the elements, or the first `count` of them, and their places."""
        if through.moves(x):
            x = self.pointwise("_laid_out", self.element(x, x.dtype), x.dtype)
        shape = x.shape if count is None else (*x.shape[:-1], Size(count))
        way = {"source": x, "is_descending": is_descending, "count": count}
        values = self._add(Order, labels[0], shape, x.dtype, is_place=False, **way)
        return values, self._add(Order, labels[1], shape, torch.int64, is_place=True, **way)

    def scatter(self, label: str, base: Value, dim: int, index: Value, source: Value, *, wraps: bool = False) -> Value:
        """Add a tensor's elements at the places along a dimension that an index names, in no fixed order."""
        fields = {"base": base, "dim": dim, "index": index, "source": source, "wraps": wraps}
        return self._add(Scatter, label, base.shape, base.dtype, **fields)

    def matmul(self, label: str, a: Value, b: Value, *, b_is_nk: bool, dtype: torch.dtype) -> Value:
        """Multiply the last two dimensions; leading ones broadcast."""
        n = b.shape[-2] if b_is_nk else b.shape[-1]
        batch = broadcast([a.shape[:-2], b.shape[:-2]])
        return self._add(MatMul, label, (*batch, a.shape[-2], n), dtype, a=a, b=b, b_is_nk=b_is_nk)

    def attention(self, label: str, v: Value, scores: Value, argument: Value, kind: str) -> Value | None:
        """Weigh v by the softmax of what was made of a product's scores; None where no kernel could hold it."""
        out = Value(label, (*scores.shape[:-1], v.shape[-1]), v.dtype)
        assert isinstance(scores.op, MatMul)
        out.op = whole = attend.attention(label, out, scores.op, argument, v, kind)
        if whole is None:
            return None
        self.ops.append(whole)
        return out

    def convolution(self, label: str, shape: Shape, dtype: torch.dtype, **fields: Any) -> Value:
        """Convolve; the fields are those of `Convolution`."""
        return self._add(Convolution, label, shape, dtype, **fields)

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
