"""The frames there are, one for each shape of kernel.

A frame is chosen from the sizes at capture, but its text runs at any size: every length is an argument.
"""

from __future__ import annotations

from backends.compiler import columnframes, rowframes
from backends.compiler.axes import Layout, product
from backends.compiler.frame import TILE, Frame, joint_lines, power_of_2

FEWER = 4
"""How many times fewer elements a program takes that reads many numbers for each: the addresses fill the registers."""


def choose(layout: Layout, *, reads_many: bool = False) -> Frame:
    """Choose the frame that fits the layout."""
    share = FEWER if reads_many else 1
    if layout.inner:
        return columnframes.choose(layout, share)
    if layout.reduced:
        return rowframes.choose(layout, share)
    return _flat(layout) if len(layout.outer) <= 1 else _tiled(layout, share)


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
    lines = joint_lines(outer, "BLOCK_LINES", "[:, None]")
    column = f"{inner.name} = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]"
    across = f"{inner.name}_inside"
    return Frame(
        layout,
        "one pass over memory",
        "tiles",
        setup=(*lines.setup, column),
        masks={
            f"{lines.name}_inside": f"{lines.name} < {product(outer)}",
            across: f"{inner.name} < {inner.size}",
            "inside": f"{lines.name}_inside & {across}",
        },
        mask_of={"all": "inside", "line": f"{lines.name}_inside", "reduced": across},
        tile="(BLOCK_LINES, BLOCK)",
        constexprs={"BLOCK_LINES": "block_lines", "BLOCK": "block"},
        blocks=(
            f"block = min({power_of_2(inner.size)}, {1024 // share})",
            f"block_lines = max({TILE // share} // block, 1)",
        ),
        grid=f"(triton.cdiv({product(outer)}, block_lines), triton.cdiv({inner.size}, block))",
        line=outer,
        line_name=lines.place,
        limits=lines.limits,
    )
