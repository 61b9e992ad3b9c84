"""How programs are laid over a domain: coordinates, masks and block sizes, for each shape of kernel.

A frame is chosen from the sizes at capture, but its text runs at any size: every length is an argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from backends.compiler.axes import Axis, Layout

PERSISTENT = 16384
"""Longest reduced run kept in registers; longer ones are streamed once a pass."""
SHORT = 1024
"""Rows up to this length share a program with others."""


@dataclass(frozen=True)
class Frame:
    """Coordinates and masks of one kernel.

    `setup` are the lines that define coordinates outside any loop, `step` those inside the loop over the
    reduced run (empty when it is not streamed). `axis` is the tile's reduced axis. `blocks` are the launcher's
    lines that choose the constexprs named in `constexprs`; `grid` is the launch grid.
    """

    layout: Layout
    setup: tuple[str, ...]
    step: tuple[str, ...]
    masks: dict[str, str]  # mask name → its text, defined where its coordinates are
    mask_of: dict[str, str]  # part of the coordinates ("line", "reduced", "all") → mask name or ""
    axis: str
    tile: str
    loop: str
    constexprs: dict[str, str]  # name → what the launcher passes
    blocks: tuple[str, ...]
    grid: str
    warps: str
    summary: str
    line: tuple[Axis, ...] = ()
    line_name: str = "line"
    flat: bool = False
    limits: tuple[str, ...] = field(default=())

    @property
    def streamed(self) -> bool:
        """True if the reduced run is read in blocks, once a pass."""
        return bool(self.loop)


def _extent(layout: Layout, axes: tuple[Axis, ...]) -> int:
    return math.prod(layout.domain[dim].hint for axis in axes for dim in axis.dims)


def _lines(axes: tuple[Axis, ...], flat_name: str, start: str) -> tuple[list[str], str]:
    """Define the joint coordinate of several axes and, from it, each one's own."""
    name = axes[0].name if len(axes) == 1 else flat_name
    lines = [f"{name} = {start}"]
    rest = name
    for axis in reversed(axes[1:]):
        lines.append(f"{axis.name} = {rest} % {axis.size}" if axis is not axes[0] else f"{axis.name} = {rest}")
        rest = f"({rest} // {axis.size})" if " " in rest else f"{rest} // {axis.size}"
    if len(axes) > 1:
        lines.append(f"{axes[0].name} = {rest}")
    return lines, name


def _product(axes: tuple[Axis, ...]) -> str:
    return " * ".join(axis.size for axis in axes) or "1"


def flat(layout: Layout) -> Frame:
    """One pass over memory: every operand has every element, or is a single number."""
    return Frame(
        layout, ("offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)",), (),
        {"inside": "offsets < n_elements"}, {"all": "inside", "line": "", "reduced": "inside"}, "", "(BLOCK,)", "",
        {"BLOCK": "1024"}, (), "(triton.cdiv(n_elements, 1024),)", "4", "one pass over memory", flat=True,
    )


def tiled(layout: Layout) -> Frame:
    """Elementwise with broadcasting: a tile of lines by neighbouring elements."""
    *outer, inner = layout.outer
    lines, name = _lines(
        tuple(outer), "line",
        "(tl.program_id(0).to(tl.int64) * BLOCK_LINES + tl.arange(0, BLOCK_LINES))[:, None]",
    )
    count = _product(tuple(outer))
    column = f"{inner.name} = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]"
    masks = {
        "line_inside": f"{name} < {count}", f"{inner.name}_inside": f"{inner.name} < {inner.size}",
        "inside": f"line_inside & {inner.name}_inside",
    }
    return Frame(
        layout, (*lines, column), (), masks,
        {"all": "inside", "line": "line_inside", "reduced": f"{inner.name}_inside"}, "", "(BLOCK_LINES, BLOCK)", "",
        {"BLOCK_LINES": "block_lines", "BLOCK": "block"},
        (
            f"block = min(triton.next_power_of_2(max({inner.size}, 1)), 1024)",
            "block_lines = max(2048 // block, 1)",
        ),
        f"(triton.cdiv({count}, block_lines), triton.cdiv({inner.size}, block))", "4", "one pass over memory",
        tuple(outer), name,
    )


def rows(layout: Layout) -> Frame:
    """Reduction along memory: a row a program, or several short ones, or one that is streamed."""
    length = _product(layout.reduced)
    single = layout.reduced[-1].name if len(layout.reduced) == 1 else "place"
    if _extent(layout, layout.reduced) <= SHORT and layout.outer:
        return _short_rows(layout, single, length)
    streamed = _extent(layout, layout.reduced) > PERSISTENT
    lines, name = _lines(layout.outer, "line", "tl.program_id(0).to(tl.int64)") if layout.outer else ([], "")
    offset = "start + " if streamed else ""
    columns = [f"{single} = {offset}tl.arange(0, BLOCK)", *_parts(layout.reduced, single)]
    blocks = (
        () if streamed
        else (f"block = triton.next_power_of_2(max({length}, 1))",)
    )
    limit = () if streamed else (f"{length} > 65536", f"a row of {{{length}}} elements is more than one program holds")
    return Frame(
        layout, (*lines, *([] if streamed else columns)), tuple(columns) if streamed else (),
        {"inside": f"{single} < {length}"}, {"all": "inside", "line": "", "reduced": "inside"},
        "axis=0", "(BLOCK,)", f"for start in range(0, {length}, BLOCK):" if streamed else "",
        {"BLOCK": "4096" if streamed else "block"}, blocks, f"({_product(layout.outer)},)",
        "8" if streamed else "min(max(block // 512, 4), 16)",
        "one row a program, read once a pass" if streamed else "one row a program, read once", layout.outer, name,
        limits=limit,
    )


def _parts(axes: tuple[Axis, ...], name: str) -> list[str]:
    """From the joint coordinate of the reduced axes, each one's own."""
    if len(axes) == 1:
        return []
    lines, rest = [], name
    for axis in reversed(axes[1:]):
        lines.append(f"{axis.name} = {rest} % {axis.size}")
        rest = f"{rest} // {axis.size}"
    return [*lines, f"{axes[0].name} = {rest}"]


def _short_rows(layout: Layout, single: str, length: str) -> Frame:
    lines, name = _lines(
        layout.outer, "line", "(tl.program_id(0).to(tl.int64) * BLOCK_LINES + tl.arange(0, BLOCK_LINES))[:, None]"
    )
    count = _product(layout.outer)
    columns = [f"{single} = tl.arange(0, BLOCK)[None, :]", *_parts(layout.reduced, single)]
    masks = {
        "line_inside": f"{name} < {count}", f"{single}_inside": f"{single} < {length}",
        "inside": f"line_inside & {single}_inside",
    }
    return Frame(
        layout, (*lines, *columns), (), masks,
        {"all": "inside", "line": "line_inside", "reduced": f"{single}_inside"},
        "axis=1, keep_dims=True", "(BLOCK_LINES, BLOCK)", "", {"BLOCK_LINES": "block_lines", "BLOCK": "block"},
        (f"block = triton.next_power_of_2(max({length}, 1))", "block_lines = max(2048 // block, 1)"),
        f"(triton.cdiv({count}, block_lines),)", "4", "several rows a program, each read once", layout.outer, name,
        limits=(f"{length} > 65536", f"a row of {{{length}}} elements is more than one program holds"),
    )


def columns(layout: Layout) -> Frame:
    """Reduction across memory: a block of neighbouring columns a program, all or some of their rows at a time."""
    length, width = _product(layout.reduced), _product(layout.inner)
    streamed = _extent(layout, layout.reduced) > 128
    single = layout.reduced[-1].name if len(layout.reduced) == 1 else "place"
    lines, name = _lines(layout.outer, "line", "tl.program_id(0).to(tl.int64)") if layout.outer else ([], "")
    axis = 1 if layout.outer else 0
    across = layout.inner[-1].name if len(layout.inner) == 1 else "lane_and_column"
    lane = f"{across} = (tl.program_id({axis}) * BLOCK + tl.arange(0, BLOCK))[None, :]"
    lanes = [lane, *_parts(layout.inner, across)]
    offset = "start + " if streamed else ""
    steps = [
        f"{single} = ({offset}tl.arange(0, BLOCK_ROWS)).to(tl.int64)[:, None]", *_parts(layout.reduced, single),
    ]
    masks = {
        f"{across}_inside": f"{across} < {width}", f"{single}_inside": f"{single} < {length}",
        "inside": f"{single}_inside & {across}_inside",
    }
    outer = f"{_product(layout.outer)}, " if layout.outer else ""
    # 512 neighbouring columns by 8 rows came closest to PyTorch's own reduction on an H200 (87 % of its speed)
    blocks = (
        (f"block = min(triton.next_power_of_2(max({width}, 1)), 512)", "block_rows = 4096 // block") if streamed
        else (
            f"block_rows = triton.next_power_of_2(max({length}, 1))",
            f"block = min(triton.next_power_of_2(max({width}, 1)), max(4096 // block_rows, 16))",
        )
    )
    limit = () if streamed else (f"{length} > 1024", f"{{{length}}} rows are more than one program holds")
    return Frame(
        layout, (*lines, *lanes, *([] if streamed else steps)), tuple(steps) if streamed else (), masks,
        {"all": "inside", "line": f"{across}_inside", "reduced": f"{single}_inside"},
        "axis=0, keep_dims=True", "(BLOCK_ROWS, BLOCK)",
        f"for start in range(0, {length}, BLOCK_ROWS):" if streamed else "",
        {"BLOCK_ROWS": "block_rows", "BLOCK": "block"},
        blocks,
        f"({outer}triton.cdiv({width}, block){'' if outer else ','})", "4",
        "a block of columns a program" + (", read once a pass" if streamed else ", read once"), layout.outer, name,
        limits=limit,
    )


def choose(layout: Layout) -> Frame:
    """Choose the frame that fits the layout."""
    if layout.inner:
        return columns(layout)
    if layout.reduced:
        return rows(layout)
    return flat(layout) if len(layout.outer) <= 1 else tiled(layout)
