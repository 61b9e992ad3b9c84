"""Arithmetic on shapes: broadcasting, and runs of neighbouring dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from backends.compiler.ir import ONE, Shape, Size
from backends.compiler.rules import Declined


def runs_of(shape: Shape, dims: Sequence[int]) -> list[tuple[int, ...]]:
    """Split dims where a dimension with several elements lies between them."""
    runs: list[list[int]] = []
    for dim in dims:
        gap = runs and all(shape[between].hint == 1 for between in range(runs[-1][-1] + 1, dim))
        if gap:
            runs[-1].append(dim)
        else:
            runs.append([dim])
    return [tuple(run) for run in runs]


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Return the broadcast shape; raise Declined where sizes differ that cannot."""
    rank = max((len(shape) for shape in shapes), default=0)
    out: list[Size] = [ONE] * rank
    for shape in shapes:
        for index, size in enumerate(shape, start=rank - len(shape)):
            if size.hint == 1:
                continue
            if out[index].hint not in (1, size.hint):
                raise Declined("shapes do not broadcast")
            if out[index].hint == 1 or out[index].symbol is None:
                out[index] = size
    return tuple(out)
