"""Convolution as a matrix product of shifted rows: at each tap, an output's place reads the row so many places further.

So every operand is a plain box, which the GPU copies by itself, whatever the dimensions, strides and dilations. Along
the last dimension rows overlap, and a tap shifts inside of the row. float32 comes in one or two planes of float16.
"""

from __future__ import annotations

from backends.compiler.conv.convolved import Convolved
from backends.compiler.conv.gather import divided, horner
from backends.compiler.conv.places import end, output_channels, outputs, phase, tile
from backends.compiler.conv.tiled import channels
from backends.compiler.kernel import formula
from backends.compiler.margin import TAB, jit, quoted

BLOCKS = ["BLOCK_P", "BLOCK_OC", "BLOCK_C"]
BOXES = ["x_rows", "weight_rows"]
NAMES = (
    *BOXES,
    "x_range",
    "weight_range",
    "redo",
    "x_lost",
    "weight_lost",
    "x_column",
    "weight_column",
    "columns",
    "channels",
    "n_channels",
    "n_rows",
    "all_rows",
    "line",
    "width",
    "pitch",
    "reach",
    "numbers",
    "taps",
    "tap",
    "steps",
    "grid",
    "first_oc",
    "c",
    "x_high",
    "x_low",
    "weight_high",
    "weight_low",
    "low",
    "is_sure",
    "is_lost",
    "warps",
    "stages",
    "block_c",
    "begin",
    "x_inside",
    "weight_inside",
    "reached",
    "program",
)


def kernel(conv: Convolved, name: str, planes: int) -> str:
    """Write the kernel; `planes` is how many float16 numbers stand for a float32."""
    lines = [
        *(["group = tl.program_id(1)"] if conv.is_grouped else []),
        *([*phase(conv), *_taps_of_phase(conv)] if conv.op.is_transposed else []),
        *tile(conv),
        "",
        *_main_loop(conv, planes),
        "",
        *output_channels(),
        *_mark_doubt(conv, planes),
        "acc *= two_to_the(-power_of(tl.load(x_range_ptr)))",
        "acc *= two_to_the(-power_of(tl.load(weight_range_ptr + oc, mask=oc < OC, other=0.0)))",
        "",
        *outputs(conv, "start", "BLOCK_P"),
        *end(conv),
    ]
    constants = [[*conv.constants, *(conv.list("step_{l}") if conv.op.is_transposed else [])], ["TAPS", *BLOCKS]]
    groups = [
        [*BOXES, *(f"{tensor}_ptr" for tensor in tensors(conv))],
        [*sizes(conv), *conv.tail_scalars],
        *([f"{constant}: tl.constexpr" for constant in group] for group in constants),
    ]
    return jit(f"{name}_kernel", groups, quoted(f"{formula(conv.group)}: {_meaning(conv)}.", conv.group.lines), lines)


def tensors(conv: Convolved) -> list[str]:
    """Name the tensors beside the boxes: the ranges, the marks of tiles, what the tail reads, and the results."""
    behind = {conv.op.bias, *conv.tail_operands}
    read = [name for value, name in conv.signature.operands.items() if value in behind]
    return ["x_range", "weight_range", "redo", *read, *conv.signature.results.values()]


def sizes(conv: Convolved) -> list[str]:
    """Name the lengths."""
    more = [] if conv.op.is_transposed or len(conv.letters) == 1 else ["n_rows"]
    return [
        "N",
        *channels(conv),
        *conv.list("O{L}"),
        *conv.list("G{L}"),
        *more,
        "all_rows",
        "n_channels",
        "columns",
        "line",
    ]


def _meaning(conv: Convolved) -> str:
    if conv.op.is_transposed:
        met = " and ".join(conv.list("o{l} = i{l} * stride_{l} - padding_{l} + k{l} * dilation_{l}"))
        return (
            f"y[n, oc, {conv.each('o{l}')}] is the sum over (ic, {conv.each('k{l}')}) of weight[ic, oc, "
            f"{conv.each('k{l}')}] * x[n, ic, {conv.each('i{l}')}] where {met}"
        )
    read = conv.each("o{l} * stride_{l} - padding_{l} + k{l} * dilation_{l}")
    return (
        f"y[n, oc, {conv.each('o{l}')}] is the sum over (ic, {conv.each('k{l}')}) of weight[oc, ic, "
        f"{conv.each('k{l}')}] * x[n, ic, {read}]"
    )


def _taps_of_phase(conv: Convolved) -> list[str]:
    last = conv.letters[-1]
    return [
        *conv.list("tap_{l}, taps_{l} = taps_of_phase(phase_{l}, K{L}, stride_{l}, dilation_{l}, step_{l})"),
        f"if TAPS < K{last.upper()}:  # a line's taps are one, the last first: so they reach the inputs in order",
        f"{TAB}tap_{last}, taps_{last} = K{last.upper()} - 1, 1",
    ]


def _main_loop(conv: Convolved, planes: int) -> list[str]:
    last = conv.letters[-1]
    counts = conv.list("taps_{l}") if conv.op.is_transposed else [*conv.list("K{L}")[:-1], "TAPS"]
    turns, first = divided("step // steps", conv.list("k{l}")[1:], counts[1:])
    turns = [*turns, f"k{conv.letters[0]} = {first}"]
    if conv.op.is_transposed:
        turns = [line.replace(" = ", f" = tap_{line[1]} + ", 1) + f" * step_{line[1]}" for line in turns]
    inner = [
        "c = step % steps * BLOCK_C",
        *turns,
        *(_transposed_shift(conv) if conv.op.is_transposed else _shift(conv)),
        f"weight_column = {_weight_line(conv)}{_weight_tap(conv, last)} * columns + c",
        *_products(planes),
    ]
    return [
        "# wgmma multiplies 64 rows or more: that many channels come first, fewer come last",
        "CHANNELS_FIRST: tl.constexpr = BLOCK_OC >= 64",
        "acc = tl.zeros((BLOCK_OC, BLOCK_P) if CHANNELS_FIRST else (BLOCK_P, BLOCK_OC), tl.float32)",
        *(["low = tl.zeros_like(acc)"] if planes == 2 else []),
        "steps = tl.cdiv(columns, BLOCK_C)",
        f"for step in range({' * '.join([*counts, 'steps'])}):",
        *(TAB + line for line in inner),
        *(["acc += low / 2048"] if planes == 2 else []),
        "if CHANNELS_FIRST:",
        f"{TAB}acc = acc.T",
    ]


def _weight_line(conv: Convolved) -> str:
    outer = conv.letters[:-1]
    if not outer:
        return ""
    text = horner([f"k{x}" for x in outer], [f"K{x.upper()}" for x in outer])
    return f"{_factor(text)} * line + "


def _weight_tap(conv: Convolved, last: str) -> str:
    return f"(K{last.upper()} - 1 - k{last})" if conv.op.is_transposed else f"k{last}"


def _shift(conv: Convolved) -> list[str]:
    """Find the row and its columns; the lines of one phase of the stride lie together."""
    outer, last = conv.letters[:-1], conv.letters[-1]
    group = "group * columns + " if conv.is_grouped else ""
    column = f"x_column = k{last} * dilation_{last} * n_channels + {group}c"
    if not outer:
        return ["row = start", column]
    phases = horner([f"d{x} % stride_{x}" for x in outer], ["", *(f"stride_{x}" for x in outer[1:])])
    lines = horner([f"d{x} // stride_{x}" for x in outer], ["", *(f"G{x.upper()}" for x in outer[1:])])
    return [
        *(f"d{x} = k{x} * dilation_{x}" for x in outer),
        f"row = start + {_factor(phases)} * n_rows + {_factor(lines)} * G{last.upper()}",
        column,
    ]


def _transposed_shift(conv: Convolved) -> list[str]:
    """Find the row and its columns; the grid begins so many places before the first input as a tap reads."""
    outer, last = conv.letters[:-1], conv.letters[-1]
    group = "group * columns + " if conv.is_grouped else ""
    lines = horner([f"d{x}" for x in outer], ["", *(f"G{x.upper()}" for x in outer[1:])]) if outer else ""
    return [
        "# divides without a rest: taps of this phase",
        *(
            f"d{x} = dilation_{x} * (K{x.upper()} - 1) // stride_{x} + (phase_{x} - k{x} * dilation_{x}) // stride_{x}"
            for x in conv.letters
        ),
        f"row = start + {_factor(lines)} * G{last.upper()}" if outer else "row = start",
        f"x_column = d{last} * n_channels + {group}c",
    ]


def _factor(text: str) -> str:
    return f"({text})" if " " in text else text


def _products(planes: int) -> list[str]:
    if planes == 1:
        return [
            "x_high = x_rows.load([row, x_column])",
            "weight_high = weight_rows.load([first_oc, weight_column])",
            "if CHANNELS_FIRST:",
            f"{TAB}acc = tl.dot(weight_high, x_high.T, acc)",
            "else:",
            f"{TAB}acc = tl.dot(x_high, weight_high.T, acc)",
        ]
    return [
        "x_high = x_rows.load([row, x_column])",
        "x_low = x_rows.load([all_rows + row, x_column])",
        "weight_high = weight_rows.load([first_oc, weight_column])",
        "weight_low = weight_rows.load([OC + first_oc, weight_column])",
        "if CHANNELS_FIRST:",
        f"{TAB}acc, low = add_products(acc, low, weight_high, weight_low, x_high.T, x_low.T, BLOCK_C)",
        "else:",
        f"{TAB}acc, low = add_products(acc, low, x_high, x_low, weight_high.T, weight_low.T, BLOCK_C)",
    ]


def _mark_doubt(conv: Convolved, planes: int) -> list[str]:
    """Tell the second kernel whether float16 was too narrow for a sum of the tile."""
    lost = f"(x_lost + weight_lost) {'* 8' if planes == 1 else '/ 16'}"
    terms = f"{conv.depth} * {conv.each('K{L}', ' * ')}"
    doubt = {
        1: "# a faint number is off by 2**-25 at most, and meets 2**14 at most: a sum of no less than 8 times their "
        "count loses no more than 6e-5 of itself by them. An overflow is not to be trusted, nor is a NaN",
        2: "# a faint number is off by 2**-36 at most, and meets 2**14 at most: a sum of no less than their count / 16 "
        "loses no more than 4e-6 of itself by them. A NaN is not to be trusted",
    }[planes]
    program = "tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)" if conv.is_grouped else "tl.program_id(0)"
    return [
        doubt,
        f"x_lost = tl.minimum(tl.load(x_range_ptr + 1), {terms})",
        "weight_lost = tl.load(weight_range_ptr + OC + oc, mask=oc < OC, other=0.0)",
        f"is_sure = tl.abs(acc) >= {lost}",
        *(['is_sure &= tl.abs(acc) < float("inf")'] if planes == 1 else []),
        "is_lost = tl.min(is_sure.to(tl.int32)) == 0",
        "if is_lost:  # by a sum of an output, not of a place between those?",
        *(TAB + line for line in outputs(conv, "start", "BLOCK_P")),
        f"{TAB}is_lost = tl.min((is_sure | ~inside).to(tl.int32)) == 0",
        f"tl.store(redo_ptr + {program}, is_lost.to(tl.int32))",
    ]
