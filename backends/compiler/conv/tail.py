"""The elementwise tail of a convolution: computed on the accumulator, then stored."""

from __future__ import annotations

from dataclasses import dataclass

from backends.compiler import accumulated
from backends.compiler.axes import presence
from backends.compiler.body import loaded
from backends.compiler.conv.convolved import Convolved
from backends.compiler.ir import Value


@dataclass(frozen=True)
class Place:
    """How a kernel writes where it is: the masks of its output points and channels, and of both."""

    of_points: str
    of_channels: str
    of_both: str = "inside"
    acc: str = "acc"


def tail(conv: Convolved, place: Place) -> list[str]:
    """Load what the tail reads, compute it on the accumulator, store the results."""
    rank = len(conv.op.out.shape)
    coordinates = dict(zip(range(rank, 0, -1), _coordinates(conv), strict=True))
    behind = accumulated.tail(
        conv.group,
        conv.signature,
        place.acc,
        coordinates,
        lambda value: _where(conv, place, value),
        ("place", place.of_both),
    )
    if not conv.bias:
        return behind
    bias = loaded(conv.bias, "oc", place.of_channels, conv.op.bias.dtype)  # type: ignore[union-attr]
    return [f"{place.acc} += {bias}", *behind]


def _coordinates(conv: Convolved) -> list[str]:
    return ["n", "oc", *conv.list("o{l}")]


def _where(conv: Convolved, place: Place, value: Value) -> tuple[str, str]:
    """Address of an operand of the tail by the dimensions that it has, and the mask that it is inside."""
    shape = conv.op.out.shape
    has = presence(value.shape, shape)
    if all(has):  # the launcher has compared the sizes
        return "place", place.of_both
    sizes = ["N", "OC", *conv.list("O{L}")]
    where = ""
    for present, name, size in zip(has, _coordinates(conv), sizes, strict=True):
        if present:
            where = f"({where}) * {size} + {name}" if " " in where else f"{where} * {size} + {name}" if where else name
    points = has[0] or any(has[2:])
    mask = place.of_both if points and has[1] else place.of_points if points else place.of_channels if has[1] else ""
    return where, mask
