"""Triangles of matrix products: of a tile from which the program keeps nothing, nothing is computed.

The program itself must say so, by `tril` or `triu` behind the product; of what the factors hold nothing is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass

from backends.compiler.expression import Call, Expr, Index, Literal, Ref
from backends.compiler.group import Group
from backends.compiler.indexed import Read
from backends.compiler.ir import Pointwise, Value

_UPPER = {"<=": [False], ">=": [True], "==": [False, True]}
"""Which triangles a comparison of column and row keeps places of: upper ones, or lower."""


@dataclass(frozen=True)
class Triangle:
    """What is kept: places with column <= row + diagonal, or with `is_upper` column >= row + diagonal."""

    is_upper: bool
    diagonal: int

    @property
    def depth(self) -> list[str]:
        """Write how far a tile's sums go: not at all where no place of the tile is kept."""
        row, column = "tile_m * BLOCK_M", "tile_n * BLOCK_N"
        shift = f" {'-' if self.diagonal < 0 else '+'} {abs(self.diagonal)}" if self.diagonal else ""
        some = f"{column} + BLOCK_N > {row}{shift}" if self.is_upper else f"{column} < {row} + BLOCK_M{shift}"
        return ["# the sums of a tile of which nothing is kept stay 0", f"depth = tl.where({some}, K, 0)"]


def kept(group: Group) -> Triangle | None:
    """Return the triangle of a product that alone has an influence on the group's results, if there is one."""
    whole, found = {group.ops[0].out}, set[Triangle]()
    for op in group.ops[1:]:
        if not isinstance(op, Pointwise) or _passes(op.expr, whole, found):
            whole.add(op.out)
    is_seen = any(value in whole for value in group.outputs)
    return None if is_seen or len(found) != 1 else found.pop()


def _passes(x: Expr, whole: set[Value], found: set[Triangle]) -> bool:
    """Tell whether x depends on places that no triangle keeps; note the triangles that hold them back."""
    if isinstance(x, (Ref, Read)) and x.value in whole:
        return True
    held = triangles(x)
    parts = [_passes(part, whole, found) for part in x.parts]
    if not held:
        return any(parts)
    if any(parts):
        found.update(held)
    return False


def triangles(x: Expr) -> list[Triangle]:
    """Read `where(column <= row + diagonal, anything, 0)`, and the same with `>=`, or with `==`: then it is in both."""
    if not isinstance(x, Call) or x.function != "where":
        return []
    condition, _, otherwise = x.arguments
    if not isinstance(otherwise, Literal) or otherwise.number != 0:
        return []
    if not isinstance(condition, Call) or condition.function not in _UPPER:
        return []
    column, edge = condition.arguments
    diagonal = _diagonal(edge)
    if not isinstance(column, Index) or column.from_end != 1 or diagonal is None:
        return []
    return [Triangle(is_upper, diagonal) for is_upper in _UPPER[condition.function]]


def _diagonal(edge: Expr) -> int | None:
    """Read `row`, or `row + diagonal`."""
    if isinstance(edge, Index) and edge.from_end == 2:
        return 0
    if not isinstance(edge, Call) or edge.function != "+":
        return None
    row, shift = edge.arguments
    is_row = isinstance(row, Index) and row.from_end == 2
    return int(shift.number) if is_row and isinstance(shift, Literal) else None
