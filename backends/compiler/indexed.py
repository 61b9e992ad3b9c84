"""Reading a tensor at computed places: expressions over the coordinates of the result.

An index is an ordinary expression of int64; a window is a fold over the places in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch

from backends.compiler.expression import Expr, Literal, Number, as_expr, binary, call, walk

if TYPE_CHECKING:
    from backends.compiler.ir import Value

PLACE = torch.int64


@dataclass(frozen=True, eq=False)
class Read(Expr):
    """The element of a tensor at computed coordinates, one a dimension; `fill` where `valid` is false.

    With `is_checked`, `valid` says that a place named by the data exists: the kernel refuses one that does not.
    """

    is_written_once: ClassVar[bool] = True
    value: Value
    indices: tuple[Expr, ...]
    valid: Expr | None = None
    fill: Number = 0
    wish: str = ""
    is_checked: bool = False

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.indices if self.valid is None else (*self.indices, self.valid)

    def with_parts(self, parts: tuple[Expr, ...]) -> Expr:
        rank = len(self.indices)
        return replace(self, indices=parts[:rank], valid=parts[rank] if self.valid is not None else None)


@dataclass(frozen=True, eq=False)
class Measure(Expr):
    """A number that the launcher reads off its operands' shapes: `text` with {0}, {1} for dimensions' lengths."""

    text: str
    lengths: tuple[tuple[Value, int], ...]
    number: Number  # at capture
    wish: str = ""

    @property
    def key(self) -> tuple[str, tuple[tuple[Value, int], ...]]:
        """Equal for equal numbers."""
        return self.text, self.lengths


@dataclass(frozen=True, eq=False)
class Local(Expr):
    """An expression that the kernel gives a name of its own."""

    is_written_once: ClassVar[bool] = True
    wish: str
    meaning: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.meaning,)

    def with_parts(self, parts: tuple[Expr, ...]) -> Expr:
        return replace(self, meaning=parts[0])


@dataclass(frozen=True, eq=False)
class Checked(Expr):
    """A place named by the data: the kernel refuses one for which `exists` is false."""

    is_written_once: ClassVar[bool] = True
    place: Local
    exists: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.place, self.exists

    def with_parts(self, parts: tuple[Expr, ...]) -> Expr:
        assert isinstance(parts[0], Local)
        return replace(self, place=parts[0], exists=parts[1])


@dataclass(frozen=True, eq=False)
class Tap(Expr):
    """The place along one side of a window: the variable of a loop."""

    is_written_once: ClassVar[bool] = True
    wish: str
    count: Expr  # a number known to the host

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.count,)

    def with_parts(self, parts: tuple[Expr, ...]) -> Expr:
        return replace(self, count=parts[0])


@dataclass(frozen=True, eq=False)
class Fold(Expr):
    """The elements of a window combined, one after the other: their "sum" or "max", the "argmax", or the "last".

    `places` are, for "argmax", the place of the window's first element and of the one at hand; for "last", what
    stands where no element counts, and whether the one at hand does.
    """

    is_written_once: ClassVar[bool] = True
    kind: str
    taps: tuple[Tap, ...]
    element: Expr
    wish: str = ""
    places: tuple[Expr, ...] = ()

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (*self.taps, self.element, *self.places)

    def with_parts(self, parts: tuple[Expr, ...]) -> Expr:
        count = len(self.taps)
        taps = tuple(tap for tap in parts[:count] if isinstance(tap, Tap))
        return replace(self, taps=taps, element=parts[count], places=parts[count + 1 :])


@dataclass(frozen=True, eq=False)
class Name(Expr):
    """A name that the kernel has already."""

    text: str


@dataclass(frozen=True)
class Map:
    """Where a view's elements lie in its source: an index for each of the source's dimensions, over the view's places.

    `extents` are the view's lengths; `moves` says that neighbours in memory are none in the view, or others are.
    """

    indices: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    moves: bool = False


def length(value: Value, dim: int, wish: str = "") -> Expr:
    """Read how long a tensor is along a dimension; 1 where it is always 1."""
    size = value.shape[dim]
    if size.hint == 1:
        return Literal(PLACE, 1)
    return Measure(PLACE, "{0}", ((value, dim % len(value.shape)),), size.hint, wish)


def measure(text: str, number: Number, wish: str, *lengths: tuple[Value, int], dtype: torch.dtype = PLACE) -> Measure:
    """Let the launcher compute a number from dimensions' lengths."""
    return Measure(dtype, text, tuple((value, dim % len(value.shape)) for value, dim in lengths), number, wish)


def plus(left: Expr, right: Expr | int) -> Expr:
    """Add to a place, without writing + 0 or + -1."""
    other = as_expr(right, PLACE)
    if not isinstance(other, Literal):
        return other if _is_zero(left) else binary("+", left, other)
    if isinstance(left, Literal):
        return Literal(PLACE, left.number + other.number)
    if other.number == 0:
        return left
    return binary("-", left, -other.number) if other.number < 0 else binary("+", left, other.number)


def times(left: Expr, right: Expr | int) -> Expr:
    """Scale a place, without writing * 1."""
    one, other = left, as_expr(right, PLACE)
    if isinstance(one, Literal):
        one, other = other, one
    if not isinstance(other, Literal):
        return binary("*", one, other)
    if isinstance(one, Literal):
        return Literal(PLACE, one.number * other.number)
    if other.number == 0:
        return other
    return one if other.number == 1 else binary("*", one, other)


def _is_zero(x: Expr) -> bool:
    return isinstance(x, Literal) and x.number == 0


def over(left: Expr, right: Expr | int) -> Expr:
    """Divide a place that is not negative."""
    return left if _is_zero(left) else call("int_div", left, right)


def modulo(left: Expr, right: Expr | int) -> Expr:
    """Take the rest of a place that is not negative."""
    return left if _is_zero(left) else call("int_mod", left, right)


def least(left: Expr, right: Expr | int) -> Expr:
    """The smaller of two places."""
    return call("minimum", left, right)


def largest(left: Expr, right: Expr | int) -> Expr:
    """The larger of two places."""
    return call("maximum", left, right)


def every(conditions: list[Expr]) -> Expr | None:
    """Join conditions; None where there is none."""
    joined: Expr | None = None
    for condition in conditions:
        joined = condition if joined is None else joined & condition
    return joined


COORDINATES = {1: "column", 2: "row", 3: "plane"}


def named(prefix: str, from_end: int) -> str:
    """Name a place along one of a tensor's last dimensions: from_row."""
    return f"{prefix}_{COORDINATES.get(from_end, str(from_end))}"


def reads(x: Expr) -> list[Read]:
    """List what a tree reads at computed places."""
    return [node for node in walk(x) if isinstance(node, Read)]


def refuses(x: Expr) -> bool:
    """Tell whether a kernel of this expression refuses places that do not exist."""
    return any(isinstance(node, Checked) or (isinstance(node, Read) and node.is_checked) for node in walk(x))


def measures(x: Expr) -> list[Measure]:
    """List the numbers that a tree needs of the launcher."""
    return [node for node in walk(x) if isinstance(node, Measure)]
