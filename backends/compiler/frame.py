"""A frame: how the programs of one kernel are laid over its domain."""

from __future__ import annotations

from dataclasses import dataclass

from backends.compiler.axes import Axis, Layout


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
    limit: tuple[str, str] | None = None  # (condition, message) of sizes that the launcher refuses
