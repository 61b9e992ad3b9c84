"""Scalar expressions: what happens to one element. Plain trees; text and dtypes, no tensors are computed here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

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


def substitute(x: Expr, old: Value, new: Expr) -> Expr:
    """Put another expression wherever the tree reads `old`."""
    if isinstance(x, Ref) and x.value is old:
        return new
    if isinstance(x, Call):
        return Call(x.dtype, x.function, tuple(substitute(argument, old, new) for argument in x.arguments))
    return x


def replace(x: Expr, old: Value, new: Value) -> Expr:
    """Read another tensor wherever the tree reads `old`."""
    dtype = compute_dtype(old.dtype)
    return substitute(x, old, Ref(dtype, new))


def walk(x: Expr) -> list[Expr]:
    """List the nodes of a tree, arguments before the calls that use them."""
    nodes = [node for argument in x.arguments for node in walk(argument)] if isinstance(x, Call) else []
    return [*nodes, x]
