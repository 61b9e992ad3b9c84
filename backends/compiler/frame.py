"""A frame: how the programs of one kernel are laid over its domain."""

from __future__ import annotations

import math
from dataclasses import dataclass

from backends.compiler.axes import Axis, Layout, coordinates, product

TILE = 2048
"""Elements that a program of 4 warps takes, of rows or columns that are shorter."""
ONE_LINE = "tl.program_id(0).to(tl.int64)"


@dataclass(frozen=True)
class Frame:
    """Coordinates, masks and block sizes of one kernel, as the text that defines them."""

    layout: Layout
    summary: str  # for the kernel's docstring
    over: str  # what the launcher launches over
    setup: tuple[str, ...]  # lines that define coordinates outside any loop
    masks: dict[str, str]  # mask name → its text, defined where its coordinates are
    mask_of: dict[str, str]  # part of the coordinates ("line", "reduced", "all") → mask name or ""
    tile: str  # the shape of what a program holds
    grid: str
    constexprs: dict[str, str]  # name → what the launcher passes
    axis: str = ""  # the arguments by which tl.sum reduces a tile
    step: tuple[str, ...] = ()  # lines that define coordinates inside the loop over the reduced run
    loop: str = ""  # that loop's head, where the reduced run is read in blocks
    blocks: tuple[str, ...] = ()  # the launcher's lines that choose block sizes
    warps: str = "4"
    line: tuple[Axis, ...] = ()  # the axes whose joint coordinate is `line_name`
    line_name: str = "line"
    is_flat: bool = False
    limits: tuple[tuple[str, str], ...] = ()  # (condition, message) of sizes that the launcher refuses


def extent(layout: Layout) -> int:
    return math.prod(layout.domain[dim].hint for axis in layout.reduced for dim in axis.dims)


def joint_line(axes: tuple[Axis, ...]) -> tuple[list[str], str]:
    """Define a program's line, the joint coordinate of several axes, and each one's own; return its name too."""
    if not axes:
        return [], ""
    name = axes[0].name if len(axes) == 1 else "line"
    return [f"{name} = {ONE_LINE}", *coordinates(axes, name)], name


@dataclass(frozen=True)
class Lines:
    """The lines that lie beside each other in a program: the joint coordinate of several axes, and each one's own."""

    setup: tuple[str, ...]
    name: str
    place: str  # in an address
    limits: tuple[tuple[str, str], ...] = ()


def joint_lines(axes: tuple[Axis, ...], block: str, index: str) -> Lines:
    """Define a block of lines along one dimension of a tile.

    Where they are divided by lengths they count in 32 bits: a masked softmax over 49 takes 108 registers so, and 242
    where it divides numbers of 64 bits.
    """
    lanes = f"* {block} + tl.arange(0, {block}){index}"
    if len(axes) == 1:
        name = axes[0].name
        return Lines((f"{name} = {ONE_LINE} {lanes}",), name, name)
    parted = [line.split(" = ") for line in coordinates(axes, "line")]
    own = [f"{name} = ({text}).to(tl.int64)" for name, text in parted]
    too_many = (f"{product(axes)} > 2**31 - 2**16", "more lines than one launch can count")
    return Lines((f"line = tl.program_id(0) {lanes}", *own), "line", "line.to(tl.int64)", (too_many,))


def power_of_2(length: str) -> str:
    """The next power of two; max() because an empty tensor has length 0."""
    return f"triton.next_power_of_2(max({length}, 1))"
