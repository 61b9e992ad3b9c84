"""Index arithmetic: the fewest loops over a group's domain, and each operand's address in them.

Neighbouring dimensions become one axis where every operand has both or lacks both. So an elementwise chain
is one axis, a bias over the last dimension makes two, a normalisation is rows and columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backends.compiler.group import Group
from backends.compiler.indices import indexed, walked
from backends.compiler.ir import Pointwise, Shape, Value

PLURALS = {"batch": "batches"}
OUTPUT_PLACES = ("od", "oh", "ow")


@dataclass(frozen=True)
class Axis:
    """A run of the domain's dimensions that is walked as one; `name` is its coordinate, `size` its length."""

    dims: tuple[int, ...]
    reduced: bool
    name: str = ""

    @property
    def size(self) -> str:
        """The kernel's argument for the length: row → n_rows, ow → out_w."""
        if self.name in OUTPUT_PLACES:
            return f"out_{self.name[1:]}"
        return f"n_{self.name}" if self.name[-1].isdigit() else f"n_{PLURALS.get(self.name, self.name + 's')}"


@dataclass(frozen=True)
class Layout:
    """The axes of a group, the kept ones before the reduced one, the reduced, and the kept ones behind."""

    outer: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    domain: Shape

    @property
    def axes(self) -> tuple[Axis, ...]:
        return self.outer + self.reduced + self.inner

    @property
    def length(self) -> str:
        """The number of elements that are reduced."""
        return product(self.reduced)

    @property
    def place(self) -> str:
        """The coordinate along the reduced run."""
        return self.reduced[-1].name if len(self.reduced) == 1 else "place"

    def covered(self, value: Value) -> tuple[Axis, ...]:
        """The axes along which the value has more than one element."""
        present = presence(value.shape, self.domain)
        return tuple(axis for axis in self.axes if any(present[dim] for dim in axis.dims))

    def index_names(self) -> dict[int, str]:
        """Coordinates by dimension counted from the last, for the axes of a single dimension."""
        rank = len(self.domain)
        return {rank - axis.dims[0]: axis.name for axis in self.axes if len(axis.dims) == 1}


def product(axes: Sequence[Axis]) -> str:
    """Write the number of places that axes have together."""
    return " * ".join(axis.size for axis in axes) or "1"


def coordinates(axes: Sequence[Axis], joint: str) -> list[str]:
    """Define each axis's coordinate from the joint one of several."""
    if len(axes) < 2:
        return []
    lines, rest = [], joint
    for axis in reversed(axes[1:]):
        lines.append(f"{axis.name} = {rest} % {axis.size}")
        rest = f"{rest} // {axis.size}"
    return [*lines, f"{axes[0].name} = {rest}"]


class NoLayout(Exception):
    """The reduced dimensions lie apart: the reduction must be taken in steps."""


def presence(shape: Shape, domain: Shape) -> tuple[bool, ...]:
    """For each dimension of the domain, whether a tensor of this shape has it."""
    lead = len(domain) - len(shape)
    return tuple(index >= lead and shape[index - lead].hint != 1 for index in range(len(domain)))


def layout(group: Group) -> Layout:
    """Find the axes of a group."""
    domain = group.domain
    marks: list[tuple[object, ...]] = [presence(value.shape, domain) for value in [*group.in_place, *group.outputs]]
    marks += [tuple(dim == place for dim in range(len(domain))) for place in indexed(group)]
    walks = [walked(read, domain) for read in group.reads]
    marks += [walk.marks for walk in walks]
    runs: list[tuple[list[int], bool, tuple[object, ...]]] = []
    for dim, size in enumerate(domain):
        if size.hint == 1:
            continue
        reduced, mark = dim in group.dims, tuple(m[dim] for m in marks)
        joins = all(dim in walk.joins for walk in walks)
        if runs and joins and runs[-1][1:] == (reduced, mark) and _are_one(domain, runs[-1][0][-1] + 1, dim):
            runs[-1][0].append(dim)
        else:
            runs.append(([dim], reduced, mark))
    axes = [Axis(tuple(dims), reduced) for dims, reduced, _ in runs]
    return _called(_named(_split(axes), domain), group)


def _are_one(shape: Shape, start: int, end: int) -> bool:
    return all(size.hint == 1 for size in shape[start:end])


def _split(axes: Sequence[Axis]) -> tuple[list[Axis], list[Axis], list[Axis]]:
    first = next((i for i, axis in enumerate(axes) if axis.reduced), len(axes))
    last = max((i + 1 for i, axis in enumerate(axes) if axis.reduced), default=first)
    if any(not axis.reduced for axis in axes[first:last]):
        raise NoLayout
    return list(axes[:first]), list(axes[first:last]), list(axes[last:])


def _named(parts: tuple[list[Axis], list[Axis], list[Axis]], domain: Shape) -> Layout:
    outer, reduced, inner = parts
    if not reduced:  # elementwise: the last axis runs along memory
        return Layout(_rename(outer, ("plane", "row", "column")), (), (), domain)
    if inner:
        return Layout(
            _rename(outer, ("batch", "plane")),
            _rename(reduced, ("section", "row")),
            _rename(inner, ("lane", "column")),
            domain,
        )
    return Layout(_rename(outer, ("batch", "row")), _rename(reduced, ("section", "column")), (), domain)


def _called(found: Layout, group: Group) -> Layout:
    """Give the coordinates the names that a rule asks for."""
    wanted = {place: name for op in group.ops if isinstance(op, Pointwise) for place, name in op.coordinates}
    rank = len(found.domain)

    def called(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(
            Axis(axis.dims, axis.reduced, wanted.get(rank - axis.dims[0], axis.name)) if len(axis.dims) == 1 else axis
            for axis in axes
        )

    return Layout(called(found.outer), called(found.reduced), called(found.inner), found.domain)


def _rename(axes: Sequence[Axis], names: tuple[str, ...]) -> tuple[Axis, ...]:
    """Name the last axes by the list's last names; further ones by number."""
    spare = len(axes) - len(names)
    wanted = [f"{names[0]}{index}" for index in range(spare)] if spare > 0 else []
    wanted += names[max(0, -spare) :]
    return tuple(Axis(axis.dims, axis.reduced, name) for axis, name in zip(axes, wanted, strict=True))


def address(axes: Sequence[Axis], line: tuple[Axis, ...] = (), line_name: str = "line") -> str:
    """Write the offset of an element in a dense tensor that has just these axes, by Horner's rule.

    Where the tensor has all of the `line` axes, their joint number is used as it is.
    """
    terms: list[tuple[str, str]] = []
    rest = list(axes)
    if line and tuple(rest[: len(line)]) == line and len(line) > 1:
        terms.append((line_name, ""))
        rest = rest[len(line) :]
    terms += [(axis.name, axis.size) for axis in rest]
    if not terms:
        return ""
    text = terms[0][0]
    for name, size in terms[1:]:
        text = f"({text}) * {size} + {name}" if " " in text else f"{text} * {size} + {name}"
    return text
