"""The frames there are, one for each shape of kernel.

A frame is chosen from the sizes at capture, but its text runs at any size: every length is an argument.
"""

from __future__ import annotations

import math

from backends.compiler.axes import Axis, Layout, coordinates, product
from backends.compiler.frame import Frame

PERSISTENT = 16384
"""Longest reduced run kept in registers; longer ones are streamed once a pass."""
SHORT = 1024
"""Rows up to this length share a program with others."""
FEWER = 4
"""How many times fewer elements a program takes that reads many numbers for each: the addresses fill the registers."""
FEW_ROWS = 128
"""Rows up to this number are reduced in one step, with their columns beside each other."""

LINES = "tl.program_id(0).to(tl.int64) * BLOCK_LINES + tl.arange(0, BLOCK_LINES)[:, None]"
ONE_LINE = "tl.program_id(0).to(tl.int64)"


def choose(layout: Layout, *, reads_many: bool = False) -> Frame:
    """Choose the frame that fits the layout."""
    share = FEWER if reads_many else 1
    if layout.inner:
        return _columns(layout, share)
    if layout.reduced:
        is_short = extent(layout) <= SHORT and layout.outer
        return short_rows(layout, share) if is_short else _rows(layout, share)
    return _flat(layout) if len(layout.outer) <= 1 else _tiled(layout, share)


def extent(layout: Layout) -> int:
    return math.prod(layout.domain[dim].hint for axis in layout.reduced for dim in axis.dims)


def joint_line(axes: tuple[Axis, ...], start: str) -> tuple[list[str], str]:
    """Define the joint coordinate of several axes and, from it, each one's own; return its name too."""
    if not axes:
        return [], ""
    name = axes[0].name if len(axes) == 1 else "line"
    return [f"{name} = {start}", *coordinates(axes, name)], name


def power_of_2(length: str) -> str:
    """The next power of two; max() because an empty tensor has length 0."""
    return f"triton.next_power_of_2(max({length}, 1))"


def _flat(layout: Layout) -> Frame:
    """One pass over memory: every operand has every element, or is a single number."""
    return Frame(
        layout,
        "one pass over memory",
        "all elements",
        is_flat=True,
        setup=("offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)",),
        masks={"inside": "offsets < n_elements"},
        mask_of={"all": "inside", "line": "", "reduced": "inside"},
        tile="(BLOCK,)",
        constexprs={"BLOCK": "1024"},
        grid="(triton.cdiv(n_elements, 1024),)",
    )


def _tiled(layout: Layout, share: int) -> Frame:
    """Elementwise with broadcasting: a tile of lines by neighbouring elements."""
    *first, inner = layout.outer
    outer = tuple(first)
    lines, name = joint_line(outer, LINES)
    column = f"{inner.name} = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]"
    across = f"{inner.name}_inside"
    return Frame(
        layout,
        "one pass over memory",
        "tiles",
        setup=(*lines, column),
        masks={
            "line_inside": f"{name} < {product(outer)}",
            across: f"{inner.name} < {inner.size}",
            "inside": f"line_inside & {across}",
        },
        mask_of={"all": "inside", "line": "line_inside", "reduced": across},
        tile="(BLOCK_LINES, BLOCK)",
        constexprs={"BLOCK_LINES": "block_lines", "BLOCK": "block"},
        blocks=(
            f"block = min({power_of_2(inner.size)}, {1024 // share})",
            f"block_lines = max({2048 // share} // block, 1)",
        ),
        grid=f"(triton.cdiv({product(outer)}, block_lines), triton.cdiv({inner.size}, block))",
        line=outer,
        line_name=name,
    )


def _too_long(length: str) -> tuple[str, str]:
    return f"{length} > 65536", f"a row of {{{length}}} elements is more than one program holds"


def _rows(layout: Layout, share: int) -> Frame:
    """Reduction along memory: a row a program, held in registers or streamed through them."""
    length, place = layout.length, layout.place
    is_streamed = extent(layout) > PERSISTENT // share
    lines, name = joint_line(layout.outer, ONE_LINE)
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
        warps="8" if is_streamed else "min(max(block // 512, 4), 16)",
        line=layout.outer,
        line_name=name,
        limit=None if is_streamed else _too_long(length),
    )


def short_rows(layout: Layout, share: int = 1) -> Frame:
    """Reduction along memory, of rows so short that several share a program."""
    length, place, count = layout.length, layout.place, product(layout.outer)
    lines, name = joint_line(layout.outer, LINES)
    columns = [f"{place} = tl.arange(0, BLOCK)[None, :]", *coordinates(layout.reduced, place)]
    return Frame(
        layout,
        "several rows a program, each read once",
        "all rows",
        setup=(*lines, *columns),
        masks={
            "line_inside": f"{name} < {count}",
            f"{place}_inside": f"{place} < {length}",
            "inside": f"line_inside & {place}_inside",
        },
        mask_of={"all": "inside", "line": "line_inside", "reduced": f"{place}_inside"},
        axis="axis=1, keep_dims=True",
        tile="(BLOCK_LINES, BLOCK)",
        constexprs={"BLOCK_LINES": "block_lines", "BLOCK": "block"},
        blocks=(f"block = {power_of_2(length)}", f"block_lines = max({2048 // share} // block, 1)"),
        grid=f"(triton.cdiv({count}, block_lines),)",
        line=layout.outer,
        line_name=name,
        limit=_too_long(length),
    )


def _columns(layout: Layout, share: int) -> Frame:
    """Reduction across memory: a block of neighbouring columns a program, all or some of their rows at a time."""
    length, width, place = layout.length, product(layout.inner), layout.place
    is_streamed = extent(layout) > FEW_ROWS
    lines, name = joint_line(layout.outer, ONE_LINE)
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
        limit=None if is_streamed else (f"{length} > 1024", f"{{{length}}} rows are more than one program holds"),
    )


def _column_blocks(length: str, width: str, is_streamed: bool, share: int) -> tuple[str, str]:
    if is_streamed:
        # 512 neighbouring columns by 8 rows came closest to PyTorch's own reduction on an H200 (87 % of its speed)
        return f"block = min({power_of_2(width)}, 512)", f"block_rows = {4096 // share} // block"
    return (
        f"block_rows = {power_of_2(length)}",
        f"block = min({power_of_2(width)}, max({4096 // share} // block_rows, 16))",
    )


def shared_rows(layout: Layout) -> Frame:
    """Reduction of few long rows, stage one: PARTS programs share a row, each taking every PARTS-th block."""
    length, place = layout.length, layout.place
    lines, name = joint_line(layout.outer, ONE_LINE)
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
