"""The kernel behind shifted rows that computes a tile again for which float16 was too narrow: slow, and always right.

Where no tile is marked, as nearly always, it costs a look at the marks.
"""

from __future__ import annotations

from backends.compiler.conv.convolved import Convolved
from backends.compiler.conv.gather import divided, horner
from backends.compiler.conv.places import end, output_channels, outputs, phase, tile
from backends.compiler.conv.tiled import channels
from backends.compiler.kernel import formula
from backends.compiler.margin import TAB, jit, quoted


def kernel(conv: Convolved, name: str) -> str:
    """Write the kernel."""
    program = "tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)" if conv.is_grouped else "tl.program_id(0)"
    lines = [
        f"if tl.load(redo_ptr + {program}) == 0:",
        f"{TAB}return",
        *(["group = tl.program_id(1)"] if conv.is_grouped else []),
        *(phase(conv) if conv.op.is_transposed else []),
        *tile(conv),
        *output_channels(),
        "for begin in range(start, start + BLOCK_P, 32):",
        *(TAB + line for line in [*outputs(conv, "begin", "32"), *_sum(conv), *end(conv)]),
    ]
    groups = [
        [f"{tensor}_ptr" for tensor in tensors(conv)],
        [*sizes(conv), *conv.tail_scalars],
        *([f"{constant}: tl.constexpr" for constant in group] for group in (conv.constants, ["BLOCK_P", "BLOCK_OC"])),
    ]
    doc = f"{formula(conv.group)} of the tiles for which float16 was too narrow: in float32, without tensor cores."
    return jit(f"{name}_exact_kernel", groups, quoted(doc), lines)


def tensors(conv: Convolved) -> list[str]:
    """Name the tensors: the marks of tiles, the operands as they are, and the results."""
    return ["redo", *conv.signature.operands.values(), *conv.signature.results.values()]


def sizes(conv: Convolved) -> list[str]:
    """Name the lengths."""
    return ["N", *channels(conv), *conv.list("I{L}"), *conv.list("O{L}"), *conv.list("G{L}")]


def _sum(conv: Convolved) -> list[str]:
    """Sum up one tap after the other, 16 channels at once; an input that no tap reaches counts as 0."""
    taps = conv.each("K{L}", " * ")
    turns, first = divided("tap", conv.list("k{l}")[1:], conv.list("K{L}")[1:])
    inner = [
        f"ic = step // {_factor(taps)} * 16 + tl.arange(0, 16)",
        f"tap = step % {_factor(taps)}",
        *turns,
        f"k{conv.letters[0]} = {first}",
        *_inputs(conv),
        f"x_inside = reached & (ic < {conv.depth})[None, :]",
        f"a = tl.load({conv.x}_ptr + {_x(conv)}, mask=x_inside, other=0.0)",
        f"weight_inside = ({conv.channel_mask}) & (ic < {conv.depth})[:, None]",
        f"b = tl.load({conv.weight}_ptr + {_weight(conv, taps)}, mask=weight_inside, other=0.0)",
        'acc = tl.dot(a, b, acc, input_precision="ieee")',
    ]
    return [
        "acc = tl.zeros((32, BLOCK_OC), tl.float32)",
        f"for step in range(tl.cdiv({conv.depth}, 16) * {taps}):",
        *(TAB + line for line in inner),
    ]


def _factor(text: str) -> str:
    return f"({text})" if " " in text else text


def _inputs(conv: Convolved) -> list[str]:
    """Find the input that the tap takes to each output."""
    within = " & ".join(conv.list("(i{l} >= 0) & (i{l} < I{L})"))
    if not conv.op.is_transposed:
        inputs = conv.list("i{l} = o{l} * stride_{l} - padding_{l} + k{l} * dilation_{l}")
        return [*inputs, f"reached = exists & {within}"]
    # C's division rounds to zero, the interpreter's down: what is negative is left out before
    return [
        *conv.list("r{l} = o{l} + padding_{l} - k{l} * dilation_{l}"),
        *conv.list("i{l} = tl.where((r{l} >= 0) & (r{l} % stride_{l} == 0), r{l} // stride_{l}, -1)"),
        f"reached = exists & {within}",
    ]


def _x(conv: Convolved) -> str:
    channel = "n * IC + group * ICG + ic[None, :]" if conv.is_grouped else "n * IC + ic[None, :]"
    return horner([channel, *conv.list("i{l}")], ["", *conv.list("I{L}")])


def _weight(conv: Convolved, taps: str) -> str:
    """The offset of the weight: [oc, ic, taps], or transposed [ic, oc of the group, taps]."""
    if not conv.op.is_transposed:
        return f"(oc * {conv.depth} + ic[:, None]) * {taps} + tap"
    if conv.is_grouped:
        return f"((group * ICG + ic[:, None]) * OCG + oc - group * OCG) * {taps} + tap"
    return f"(ic[:, None] * OC + oc) * {taps} + tap"
