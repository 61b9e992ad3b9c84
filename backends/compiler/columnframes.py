"""The frames of reductions across memory: blocks of columns beside each other, or whole short columns of any plane."""

from __future__ import annotations

import math

from backends.compiler.axes import Layout, coordinates, product
from backends.compiler.frame import TILE, Frame, extent, joint_line, joint_lines, power_of_2

FEW_ROWS = 128
"""Rows up to this number are reduced in one step, with their columns beside each other."""
MOST_ROWS, MOST_ROWS_OF_FEW_COLUMNS = 1024, 16384
"""Rows that a program reduces in one step at all: a file may meet more of them than it was written for."""


def choose(layout: Layout, share: int) -> Frame:
    """Choose the frame of a reduction across the last axes; a program takes one of `share` parts of the elements."""
    return short_columns(layout, share) if is_small(layout) else _columns(layout, share)


def is_small(layout: Layout) -> bool:
    """Tell whether the columns that lie together are so few and short that a program can take those of other planes."""
    columns = math.prod(layout.domain[dim].hint for axis in layout.inner for dim in axis.dims)
    return bool(layout.outer) and extent(layout) <= MOST_ROWS and extent(layout) * columns < TILE


def _columns(layout: Layout, share: int) -> Frame:
    """Reduction across memory: a block of neighbouring columns a program, all or some of their rows at a time."""
    length, width, place = layout.length, product(layout.inner), layout.place
    is_streamed = extent(layout) > FEW_ROWS
    lines, name = joint_line(layout.outer)
    across = layout.inner[-1].name if len(layout.inner) == 1 else "lane_and_column"
    lane = f"{across} = (tl.program_id({1 if layout.outer else 0}) * BLOCK + tl.arange(0, BLOCK))[None, :]"
    start = "start + " if is_streamed else ""
    steps = [f"{place} = ({start}tl.arange(0, BLOCK_ROWS)).to(tl.int64)[:, None]", *coordinates(layout.reduced, place)]
    setup = [*lines, lane, *coordinates(layout.inner, across), *([] if is_streamed else steps)]
    blocks_across = f"triton.cdiv({width}, block)"
    return Frame(
        layout,
        f"a block of columns a program, read once{' a pass' if is_streamed else ''}",
        "all columns",
        setup=tuple(setup),
        step=tuple(steps) if is_streamed else (),
        masks={
            f"{across}_inside": f"{across} < {width}",
            f"{place}_inside": f"{place} < {length}",
            "inside": f"{place}_inside & {across}_inside",
        },
        mask_of={"all": "inside", "line": f"{across}_inside", "reduced": f"{place}_inside"},
        axis="axis=0, keep_dims=True",
        tile="(BLOCK_ROWS, BLOCK)",
        loop=f"for start in range(0, {length}, BLOCK_ROWS):" if is_streamed else "",
        constexprs={"BLOCK_ROWS": "block_rows", "BLOCK": "block"},
        blocks=_column_blocks(length, width, is_streamed, share),
        grid=f"({product(layout.outer)}, {blocks_across})" if layout.outer else f"({blocks_across},)",
        line=layout.outer,
        line_name=name,
        limits=() if is_streamed else (_too_many(length, MOST_ROWS),),
    )


def short_columns(layout: Layout, share: int = 1) -> Frame:
    """Reduction across memory, of columns so few and short that a program takes those of several planes."""
    length, place = layout.length, layout.place
    line = (*layout.outer, *layout.inner)
    lines = joint_lines(line, "BLOCK", "[None, :]")
    row = f"{place} = tl.arange(0, BLOCK_ROWS).to(tl.int64)[:, None]"
    return Frame(
        layout,
        "whole columns a program, read once",
        "all columns",
        setup=(*lines.setup, row, *coordinates(layout.reduced, place)),
        masks={
            f"{lines.name}_inside": f"{lines.name} < {product(line)}",
            f"{place}_inside": f"{place} < {length}",
            "inside": f"{place}_inside & {lines.name}_inside",
        },
        mask_of={"all": "inside", "line": f"{lines.name}_inside", "reduced": f"{place}_inside"},
        axis="axis=0, keep_dims=True",
        tile="(BLOCK_ROWS, BLOCK)",
        constexprs={"BLOCK_ROWS": "block_rows", "BLOCK": "block"},
        blocks=(f"block_rows = {power_of_2(length)}", f"block = max({TILE // share} // block_rows, 4)"),
        grid=f"(triton.cdiv({product(line)}, block),)",
        warps="min(max(block_rows * block // 512, 4), 16)",
        line=line,
        line_name=lines.place,
        limits=(*lines.limits, _too_many(length, MOST_ROWS_OF_FEW_COLUMNS)),
    )


def _column_blocks(length: str, width: str, is_streamed: bool, share: int) -> tuple[str, str]:
    if is_streamed:
        # 512 neighbouring columns by 8 rows came closest to PyTorch's own reduction on an H200 (87 % of its speed)
        return f"block = min({power_of_2(width)}, 512)", f"block_rows = {4096 // share} // block"
    return (
        f"block_rows = {power_of_2(length)}",
        f"block = min({power_of_2(width)}, max({4096 // share} // block_rows, 16))",
    )


def _too_many(length: str, most: int) -> tuple[str, str]:
    return f"{length} > {most}", f"{{{length}}} rows are more than one program holds"
