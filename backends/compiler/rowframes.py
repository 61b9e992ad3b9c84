"""The frames of reductions along memory: whole rows in registers, or a row streamed through them."""

from __future__ import annotations

from backends.compiler.axes import Layout, coordinates, product
from backends.compiler.frame import TILE, Frame, extent, joint_line, joint_lines, power_of_2

PERSISTENT = 16384
"""Longest row kept in registers; longer ones are streamed once a pass."""
ROW_WARPS = "min(max(block // 512, 4), 16)"


def choose(layout: Layout, share: int) -> Frame:
    """Choose the frame of a reduction along the last axes; a program takes one of `share` parts of the elements."""
    is_streamed = extent(layout) > PERSISTENT // share
    return rows(layout, share) if layout.outer and not is_streamed else one_row(layout, share, is_streamed)


def rows(layout: Layout, share: int = 1) -> Frame:
    """Reduction along memory, held in registers: as many rows a program as a tile has room for, at least one."""
    length, place, count = layout.length, layout.place, product(layout.outer)
    lines = joint_lines(layout.outer, "BLOCK_LINES", "[:, None]")
    columns = [f"{place} = tl.arange(0, BLOCK)[None, :]", *coordinates(layout.reduced, place)]
    return Frame(
        layout,
        "whole rows a program, read once",
        "all rows",
        setup=(*lines.setup, *columns),
        masks={
            f"{lines.name}_inside": f"{lines.name} < {count}",
            f"{place}_inside": f"{place} < {length}",
            "inside": f"{lines.name}_inside & {place}_inside",
        },
        mask_of={"all": "inside", "line": f"{lines.name}_inside", "reduced": f"{place}_inside"},
        axis="axis=1, keep_dims=True",
        tile="(BLOCK_LINES, BLOCK)",
        constexprs={"BLOCK_LINES": "block_lines", "BLOCK": "block"},
        blocks=(f"block = {power_of_2(length)}", f"block_lines = max({TILE // share} // block, 1)"),
        grid=f"(triton.cdiv({count}, block_lines),)",
        warps=ROW_WARPS,
        line=layout.outer,
        line_name=lines.place,
        limits=(*lines.limits, _too_long(length)),
    )


def one_row(layout: Layout, share: int, is_streamed: bool) -> Frame:
    """Reduction along memory: a row a program, streamed through registers; or the only row there is, held in them."""
    length, place = layout.length, layout.place
    lines, name = joint_line(layout.outer)
    start = "start + " if is_streamed else ""
    columns = [f"{place} = {start}tl.arange(0, BLOCK)", *coordinates(layout.reduced, place)]
    return Frame(
        layout,
        f"one row a program, read once{' a pass' if is_streamed else ''}",
        "all rows",
        setup=(*lines, *([] if is_streamed else columns)),
        step=tuple(columns) if is_streamed else (),
        masks={"inside": f"{place} < {length}"},
        mask_of={"all": "inside", "line": "", "reduced": "inside"},
        axis="axis=0",
        tile="(BLOCK,)",
        loop=f"for start in range(0, {length}, BLOCK):" if is_streamed else "",
        constexprs={"BLOCK": str(4096 // share) if is_streamed else "block"},
        blocks=() if is_streamed else (f"block = {power_of_2(length)}",),
        grid=f"({product(layout.outer)},)",
        warps="8" if is_streamed else ROW_WARPS,
        line=layout.outer,
        line_name=name,
        limits=() if is_streamed else (_too_long(length),),
    )


def shared_rows(layout: Layout) -> Frame:
    """Reduction of few long rows, stage one: PARTS programs share a row, each taking every PARTS-th block."""
    length, place = layout.length, layout.place
    lines, name = joint_line(layout.outer)
    return Frame(
        layout,
        "two stages",
        "the rows",
        setup=tuple(lines),
        step=(f"{place} = start + tl.arange(0, BLOCK)", *coordinates(layout.reduced, place)),
        masks={"inside": f"{place} < {length}"},
        mask_of={"all": "inside", "line": "", "reduced": "inside"},
        axis="axis=0",
        tile="(BLOCK,)",
        loop=f"for start in range(part.to(tl.int64) * BLOCK, {length}, PARTS * BLOCK):",
        constexprs={"PARTS": "parts", "BLOCK": "4096"},
        grid=f"({product(layout.outer)}, parts)",
        warps="8",
        line=layout.outer,
        line_name=name,
    )


def _too_long(length: str) -> tuple[str, str]:
    return f"{length} > 65536", f"a row of {{{length}}} elements is more than one program holds"
