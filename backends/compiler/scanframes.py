"""The frames of scans: programs walk the scanned dimension block by block and carry on from the last one.

Walking backwards is a matter of the coordinates: lane 0 is then the last place.
"""

from __future__ import annotations

from dataclasses import replace

from backends.compiler.axes import Layout, coordinates, product
from backends.compiler.columnframes import is_small, short_columns
from backends.compiler.frame import Frame, extent, joint_line, power_of_2
from backends.compiler.rowframes import rows

SHORT = 1024
"""Rows up to this length are scanned in one step, several a program."""


def choose(layout: Layout, *, reverse: bool) -> Frame:
    """Choose the frame of a scan along the layout's one reduced axis."""
    if layout.inner:
        small = is_small(layout)
        return _in_one_step(short_columns(layout), reverse=reverse) if small else _columns(layout, reverse)
    is_short = extent(layout) <= SHORT and layout.outer
    return _in_one_step(rows(layout), reverse=reverse) if is_short else _rows(layout, reverse)


def _walked(layout: Layout, lanes: str, *, reverse: bool) -> str:
    """Write the coordinate of a block's lanes."""
    return f"{layout.place} = {layout.length} - 1 - {lanes}" if reverse else f"{layout.place} = {lanes}"


def _inside(layout: Layout, *, reverse: bool) -> str:
    return f"{layout.place} >= 0" if reverse else f"{layout.place} < {layout.length}"


def _way(*, reverse: bool) -> str:
    return " from the last" if reverse else ""


def _in_one_step(frame: Frame, *, reverse: bool) -> Frame:
    """Scan whole rows or columns, several a program, in the frame in which they are reduced."""
    layout, along = frame.layout, f"{frame.layout.place} = "
    walked = [
        _walked(layout, line.removeprefix(along), reverse=reverse) if line.startswith(along) else line
        for line in frame.setup
    ]
    return replace(
        frame,
        summary=f"{frame.summary.partition(',')[0]}{_way(reverse=reverse)}",
        setup=tuple(walked),
        masks={**frame.masks, f"{layout.place}_inside": _inside(layout, reverse=reverse)},
        axis=frame.axis.partition(",")[0],
    )


def _rows(layout: Layout, reverse: bool) -> Frame:
    """Along memory: a row a program, block after block."""
    length = layout.length
    lines, name = joint_line(layout.outer)
    return Frame(
        layout,
        f"one row a program, block after block{_way(reverse=reverse)}",
        "all rows",
        setup=tuple(lines),
        step=(
            _walked(
                layout, f"{'(' if reverse else ''}start + tl.arange(0, BLOCK){')' if reverse else ''}", reverse=reverse
            ),
        ),
        masks={"inside": _inside(layout, reverse=reverse)},
        mask_of={"all": "inside", "line": "", "reduced": "inside"},
        axis="axis=0",
        tile="(BLOCK,)",
        loop=f"for start in range(0, {length}, BLOCK):",
        constexprs={"BLOCK": "block"},
        # blocks of 8192 by 8 warps came to 94 % of an H200's bandwidth
        blocks=(f"block = min({power_of_2(length)}, 8192)",),
        grid=f"({product(layout.outer)},)",
        warps="min(max(block // 1024, 4), 8)",
        line=layout.outer,
        line_name=name,
    )


def _columns(layout: Layout, reverse: bool) -> Frame:
    """Across memory: a block of neighbouring columns a program, some rows at a time."""
    length, width, place = layout.length, product(layout.inner), layout.place
    lines, name = joint_line(layout.outer)
    across = layout.inner[-1].name if len(layout.inner) == 1 else "lane_and_column"
    lane = f"{across} = (tl.program_id({1 if layout.outer else 0}) * BLOCK + tl.arange(0, BLOCK))[None, :]"
    lanes = "(start + tl.arange(0, BLOCK_ROWS)).to(tl.int64)[:, None]"
    blocks_across = f"triton.cdiv({width}, block)"
    return Frame(
        layout,
        f"a block of columns a program, rows after rows{_way(reverse=reverse)}",
        "all columns",
        setup=(*lines, lane, *coordinates(layout.inner, across)),
        step=(_walked(layout, lanes, reverse=reverse),),
        masks={
            f"{across}_inside": f"{across} < {width}",
            f"{place}_inside": _inside(layout, reverse=reverse),
            "inside": f"{place}_inside & {across}_inside",
        },
        mask_of={"all": "inside", "line": f"{across}_inside", "reduced": f"{place}_inside"},
        axis="axis=0",
        tile="(BLOCK_ROWS, BLOCK)",
        loop=f"for start in range(0, {length}, BLOCK_ROWS):",
        constexprs={"BLOCK_ROWS": "block_rows", "BLOCK": "block"},
        blocks=(
            f"block = min({power_of_2(width)}, 64)",
            f"block_rows = min({power_of_2(length)}, 4096 // block)",
        ),
        grid=f"({product(layout.outer)}, {blocks_across})" if layout.outer else f"({blocks_across},)",
        line=layout.outer,
        line_name=name,
    )
