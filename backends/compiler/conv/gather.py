"""The main loop of a convolution as a matrix product that is never laid out: k = (input channel, kernel taps).

The left tile is gathered from the input as it lies: a row is an output point, a column one k.
"""

from __future__ import annotations

from backends.compiler.conv.convolved import Convolved
from backends.compiler.margin import TAB


def main_loop(conv: Convolved, exists: str, k_parts: list[str], weight: str) -> list[str]:
    """Write the loop, given a point's mask, the lines that take k apart, and the weight's offset.

    Those lines define `ic`, and `d` with each dimension's letter: how far behind a point's first input a tap reads.
    """
    letters = conv.letters
    within = " & ".join(f"(i{x} >= 0) & (i{x} < I{x.upper()})" for x in letters)
    inner = [
        "k = start + tl.arange(0, BLOCK_K)",
        *k_parts,
        *(f"i{x} = first_{x} + d{x}[None, :]" for x in letters),
        "# what lies outside of the input counts as 0",
        f"inside = {exists} & (k < K)[None, :] & {within}",
        f"offset = {horner(['ic', *conv.list('d{l}')], ['', *conv.list('I{L}')])}",
        f"a = tl.load({conv.x}_ptr + corner + offset[None, :], mask=inside, other=0.0)",
        f"b = tl.load({conv.weight}_ptr + {weight}, mask=({conv.channel_mask}) & (k < K)[:, None], other=0.0)",
        *_product(conv),
    ]
    return [
        "acc = tl.zeros((BLOCK_P, BLOCK_OC), tl.float32)",
        "for start in range(0, K, BLOCK_K):",
        *(TAB + line for line in inner),
    ]


def _product(conv: Convolved) -> list[str]:
    """Multiply two tiles, as exactly as eager's float32 does."""
    if conv.is_single:
        return [
            "# three TF32 products: as exact as float32",
            'acc = tl.dot(a, b, acc, input_precision="tf32x3")',
        ]
    return ["acc = tl.dot(a, b, acc)"]


def horner(coordinates: list[str], sizes: list[str]) -> str:
    """Write the offset of an element: each coordinate behind the first is preceded by its dimension's size."""
    text = coordinates[0]
    for coordinate, size in zip(coordinates[1:], sizes[1:], strict=True):
        text = f"({text}) * {size} + {coordinate}" if " " in text else f"{text} * {size} + {coordinate}"
    return text


def divided(name: str, coordinates: list[str], sizes: list[str]) -> tuple[list[str], str]:
    """Take a joint number apart, the last coordinate first; return the lines and what is left for the first one."""
    lines, rest = [], name
    for coordinate, size in zip(reversed(coordinates), reversed(sizes), strict=True):
        lines.append(f"{coordinate} = {rest} % {size}")
        rest = f"{rest} // {size}"
    return lines, rest
