"""Scalar expressions: what happens to one element. Plain trees; text and dtypes, no tensors are computed here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Union

import torch

if TYPE_CHECKING:
    from backends.compiler.ir import Value

Number = int | float | bool
Operand = Union["Expr", Number]


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype a kernel computes in: float32 for the half types, the dtype itself otherwise."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


@dataclass(frozen=True, eq=False)
class Expr:
    """One element's value, of `dtype`. Python's operators build larger trees."""

    dtype: torch.dtype
    is_written_once: ClassVar[bool] = False  # the kernel gives it a name where it is read first

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions this one is made of."""
        return ()

    def with_parts(self, parts: tuple[Expr, ...]) -> Expr:
        """Make the same expression of other parts."""
        return self

    def __add__(self, other: Operand) -> Expr:
        return binary("+", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return binary("+", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return binary("-", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return binary("-", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return binary("*", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return binary("*", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return binary("/", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return binary("/", other, self)

    def __neg__(self) -> Expr:
        return Call(self.dtype, "neg", (self,))

    def __lt__(self, other: Operand) -> Expr:
        return binary("<", self, other, torch.bool)

    def __le__(self, other: Operand) -> Expr:
        return binary("<=", self, other, torch.bool)

    def __gt__(self, other: Operand) -> Expr:
        return binary(">", self, other, torch.bool)

    def __ge__(self, other: Operand) -> Expr:
        return binary(">=", self, other, torch.bool)

    def __and__(self, other: Operand) -> Expr:
        return binary("&", self, other)

    def __or__(self, other: Operand) -> Expr:
        return binary("|", self, other)


@dataclass(frozen=True, eq=False)
class Ref(Expr):
    """The element of a tensor at the place the kernel is at."""

    value: Value


@dataclass(frozen=True, eq=False)
class Literal(Expr):
    """A number written into the kernel."""

    number: Number


@dataclass(frozen=True, eq=False)
class Scalar(Expr):
    """A number known to the host at run time, such as `self.multiplier`; `number` is its value at capture."""

    host: str
    number: Number


@dataclass(frozen=True, eq=False)
class Index(Expr):
    """The place itself: the coordinate along a dimension counted from the last (1 is the last)."""

    from_end: int


@dataclass(frozen=True, eq=False)
class Call(Expr):
    """A function of `backends.compiler.text.FUNCTIONS`, or an operator, applied to expressions."""

    function: str
    arguments: tuple[Expr, ...]

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.arguments

    def with_parts(self, parts: tuple[Expr, ...]) -> Expr:
        return Call(self.dtype, self.function, parts)


def as_expr(operand: Operand, dtype: torch.dtype) -> Expr:
    """Make a number an expression of the dtype it meets."""
    return operand if isinstance(operand, Expr) else Literal(dtype, operand)


def binary(function: str, left: Operand, right: Operand, dtype: torch.dtype | None = None) -> Expr:
    """Combine two operands of one dtype; a Python number takes the other side's."""
    met = left.dtype if isinstance(left, Expr) else right.dtype  # type: ignore[union-attr]
    return Call(dtype or met, function, (as_expr(left, met), as_expr(right, met)))


def call(function: str, *arguments: Operand, dtype: torch.dtype | None = None) -> Expr:
    """Apply a named function; the result has the first expression's dtype unless told."""
    met = next(argument.dtype for argument in arguments if isinstance(argument, Expr))
    return Call(dtype or met, function, tuple(as_expr(argument, met) for argument in arguments))


def where(condition: Expr, then: Operand, otherwise: Operand) -> Expr:
    """Choose by a boolean expression."""
    met = then.dtype if isinstance(then, Expr) else otherwise.dtype  # type: ignore[union-attr]
    return Call(met, "where", (condition, as_expr(then, met), as_expr(otherwise, met)))


def equal(left: Operand, right: Operand) -> Expr:
    """Compare for equality (`==` itself stays Python's)."""
    return binary("==", left, right, torch.bool)


def is_nan(x: Expr) -> Expr:
    """True where x is not a number."""
    return binary("!=", x, x, torch.bool)


def cast(x: Expr, dtype: torch.dtype) -> Expr:
    """Convert an element, as `Tensor.to` does."""
    if x.dtype == dtype:
        return x
    if isinstance(x, Literal) and not dtype.is_complex:
        number: Number = x.number
        if dtype.is_floating_point:
            return Literal(dtype, float(number))
        if dtype == torch.bool:
            return Literal(dtype, bool(number))
        if not isinstance(number, float):
            return Literal(dtype, int(number))
    return Call(dtype, "cast", (x,))


def transform(x: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Rewrite a tree from the top: where `change` gives an expression, that one stands.

    What several places share stays shared, and what does not change stays the same object.
    """
    done: dict[int, tuple[Expr, Expr]] = {}

    def visit(node: Expr) -> Expr:
        if id(node) not in done:
            changed = change(node)
            if changed is None:
                parts = tuple(visit(part) for part in node.parts)
                same = all(new is old for new, old in zip(parts, node.parts, strict=True))
                changed = node if same else node.with_parts(parts)
            done[id(node)] = node, changed
        return done[id(node)][1]

    return visit(x)


def substitute(x: Expr, old: Value, new: Expr) -> Expr:
    """Put another expression wherever the tree reads `old`."""
    return transform(x, lambda node: new if isinstance(node, Ref) and node.value is old else None)


def replace(x: Expr, old: Value, new: Value) -> Expr:
    """Read another tensor wherever the tree reads `old`."""
    dtype = compute_dtype(old.dtype)
    return substitute(x, old, Ref(dtype, new))


def walk(x: Expr) -> list[Expr]:
    """List the nodes of a tree, parts before the expressions made of them; what is written once, once."""
    seen: set[int] = set()
    found: list[Expr] = []

    def visit(node: Expr) -> None:
        if node.is_written_once:
            if id(node) in seen:
                return
            seen.add(id(node))
        for part in node.parts:
            visit(part)
        found.append(node)

    visit(x)
    return found
