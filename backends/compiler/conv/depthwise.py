"""Convolution whose output channels read one input channel each: sums in registers, no matrix product.

A lane is one column of one output plane, so small planes fill a program as well as large ones do.
"""

from __future__ import annotations

from backends.compiler.conv.convolved import Convolved
from backends.compiler.conv.gather import horner
from backends.compiler.conv.launch import allocations, checks, launch_over, output_sizes, unpacked
from backends.compiler.conv.tail import Place, tail
from backends.compiler.conv.tiled import call, parameters
from backends.compiler.kernel import formula
from backends.compiler.margin import TAB, function, jit, quoted


def applies(conv: Convolved) -> bool:
    """True for a convolution of this kind."""
    return not conv.op.is_transposed and conv.is_grouped and conv.op.weight.shape[1].hint == 1


def kernel(conv: Convolved, name: str) -> str:
    """Write the kernel."""
    read = conv.each("o{l} * stride_{l} - padding_{l} + k{l} * dilation_{l}")
    doc = (
        f"{formula(conv.group)}: y[n, oc, {conv.each('o{l}')}] is the sum over ({conv.each('k{l}')}) of weight[oc, 0, "
        f"{conv.each('k{l}')}] * x[n, ic, {read}], with oc // (OC // IC) for ic."
    )
    groups = parameters(conv, _sizes(conv), conv.constants, ["ROWS", "BLOCK_W"])
    return jit(f"{name}_kernel", groups, quoted(doc, conv.group.lines), [*_tiles(conv), *_sum(conv), *_finish(conv)])


def _sizes(conv: Convolved) -> list[str]:
    return ["n_lanes", "IC", "OC", *conv.list("I{L}"), *conv.list("O{L}")]


def _row(conv: Convolved) -> str:
    """The letter of the dimension along which a program computes several rows, "" in one dimension."""
    return conv.letters[-2:-1]


def _tiles(conv: Convolved) -> list[str]:
    row, last = _row(conv), conv.letters[-1]
    rest = "tl.program_id(0)"
    lines = []
    if row:
        lines += [
            "# neighbouring programs take rows below each other: they share input rows in the cache",
            f"row_tiles = tl.cdiv(O{row.upper()}, ROWS)",
            f"first_row = {rest} % row_tiles * ROWS",
        ]
        rest = f"{rest} // row_tiles"
    if len(conv.letters) == 3:
        lines.append(f"od = {rest} % OD")
        rest = f"{rest} // OD"
    channel = "(n * IC + oc // (OC // IC))"
    sizes = conv.each("I{L}", " * ")
    return [
        *lines,
        f"lane = {rest} * BLOCK_W + tl.arange(0, BLOCK_W)",
        f"o{last} = lane % O{last.upper()}",
        f"oc = lane // O{last.upper()} % OC",
        f"n = (lane // (O{last.upper()} * OC)).to(tl.int64)",
        f"plane = {channel} * {sizes}",
        "",
    ]


def _sum(conv: Convolved) -> list[str]:
    """Add up every tap's products; the compiler loads an input that several rows read once."""
    row = _row(conv)
    outer = [letter for letter in conv.letters if letter != row]
    order = [*reversed(outer), row] if row else outer  # taps along rows innermost: their inputs are shared
    lines, margin = [], ""
    for letter in order:
        lines.append(f"{margin}for k{letter} in tl.static_range(K{letter.upper()}):")
        margin += TAB
    taps = horner(["oc", *conv.list("k{l}")], ["", *conv.list("K{L}")])
    lines += [
        f"{margin}b = tl.load({conv.weight}_ptr + {taps}, mask=lane < n_lanes, other=0.0)",
        *(f"{margin}i{x} = o{x} * stride_{x} - padding_{x} + k{x} * dilation_{x}" for x in outer),
    ]
    offset = horner(conv.list("i{l}"), conv.list("I{L}"))
    within = " & ".join(conv.list("(i{l} >= 0) & (i{l} < I{L})"))
    load = [
        "# what lies outside of the input counts as 0",
        f"inside = (lane < n_lanes) & {within}",
        f"a = tl.load({conv.x}_ptr + plane + {offset}, mask=inside, other=0.0)",
    ]
    widen = "" if conv.is_single else ".to(tl.float32)"
    if not row:
        step = f"acc += a{widen} * b{widen}"
        return ["acc = tl.zeros((BLOCK_W,), tl.float32)", *lines, *(margin + line for line in [*load, step])]
    body = [
        f"i{row} = (first_row + row) * stride_{row} - padding_{row} + k{row} * dilation_{row}",
        *load,
        f"acc = acc[:row] + (acc[row] + a{widen} * b{widen},) + acc[row + 1 :]",
    ]
    return [
        "acc = (tl.zeros((BLOCK_W,), tl.float32),) * ROWS",
        *lines,
        f"{margin}# the compiler loads an input once for all the rows that read it",
        f"{margin}for row in tl.static_range(ROWS):",
        *(margin + TAB + line for line in body),
    ]


def _finish(conv: Convolved) -> list[str]:
    """Apply the tail to each row."""
    row = _row(conv)
    place = horner(["n * OC + oc", *conv.list("o{l}")], ["", *conv.list("O{L}")])
    if not row:
        return ["", f"place = {place}", *tail(conv, Place("lane < n_lanes", "lane < n_lanes", "lane < n_lanes"))]
    body = [
        f"o{row} = first_row + row",
        f"inside = (lane < n_lanes) & (o{row} < O{row.upper()})",
        f"place = {place}",
        "total = acc[row]",
        *tail(conv, Place("inside", "lane < n_lanes", "inside", "total")),
    ]
    return ["", "for row in tl.static_range(ROWS):", *(TAB + line for line in body)]


def launcher(conv: Convolved, name: str) -> str:
    """Write the function that launches the kernel."""
    names, row, last = conv.signature, _row(conv), conv.letters[-1].upper()
    settings = [f"*{conv.setting(n)}" for n in ("stride", "padding", "dilation")]
    above = ["OD"] if len(conv.letters) == 3 else []
    rows = f"O{row.upper()}" if row else "1"
    row_tiles = [f"triton.cdiv({rows}, rows)"] if row else []
    count = " * ".join([*row_tiles, *above, "triton.cdiv(n_lanes, block_w)"])
    lines = [
        *unpacked(conv),
        *output_sizes(conv),
        f"expect_shape({conv.weight}, (OC, 1, {conv.each('K{L}')}))",
        *checks(conv),
        *allocations(conv),
        f"n_lanes = N * OC * O{last}",
        f"rows, block_w = depthwise_tile(n_lanes, {rows}, {conv.each('K{L}', ' * ')})",
        *call(
            conv, name, f"({count},)", _sizes(conv), [*conv.list("K{L}"), *settings], ["ROWS=rows", "BLOCK_W=block_w"]
        ),
        f"return {', '.join(names.results.values())}",
    ]
    return function(name, names.parameters, quoted(launch_over(conv, "rows and lanes")), lines)
