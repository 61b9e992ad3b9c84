"""The frames of scans: programs walk the scanned dimension block by block and carry on from the last one.

Walking backwards is a matter of the coordinates: lane 0 is then the last place.
"""

from __future__ import annotations

from dataclasses import replace

from backends.compiler.axes import Layout, coordinates, product
from backends.compiler.frame import Frame, extent, joint_line, joint_lines, power_of_2
from backends.compiler.rowframes import rows

SHORT = 1024
"""Rows up to this length are scanned in one step, several a program."""


def choose(layout: Layout, *, reverse: bool) -> Frame:
    """Choose the frame of a scan along the layout's one reduced axis."""
    if layout.inner:
        return _columns(layout, reverse)
    is_short = extent(layout) <= SHORT and layout.outer
    return _short_rows(layout, reverse) if is_short else _rows(layout, reverse)


def _walked(layout: Layout, lanes: str, *, reverse: bool) -> str:
    """Write the coordinate of a block's lanes."""
    return f"{layout.place} = {layout.length} - 1 - {lanes}" if reverse else f"{layout.place} = {lanes}"


def _inside(layout: Layout, *, reverse: bool) -> str:
    return f"{layout.place} >= 0" if reverse else f"{layout.place} < {layout.length}"


def _way(*, reverse: bool) -> str:
    return " from the last" if reverse else ""


def _short_rows(layout: Layout, reverse: bool) -> Frame:
    """Rows so short that several share a program, each in one step."""
    frame = rows(layout)
    lines = joint_lines(layout.outer, "BLOCK_LINES", "[:, None]")
    masks = {**frame.masks, f"{layout.place}_inside": _inside(layout, reverse=reverse)}
    return replace(
        frame,
        summary=f"several rows a program{_way(reverse=reverse)}",
        setup=(*lines.setup, _walked(layout, "tl.arange(0, BLOCK)[None, :]", reverse=reverse)),
        masks=masks,
        axis="axis=1",
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
