"""Transposed convolution on the tensor cores: a program takes outputs of one phase.

Outputs whose place leaves the same rest by the stride, the phase, are reached by the same taps, and by each of
those from every input. So no tap is tried in vain.
"""

from __future__ import annotations

from backends.compiler.conv.convolved import Convolved
from backends.compiler.conv.gather import divided, horner, main_loop
from backends.compiler.conv.launch import allocations, checks, launch_over, refuse_groups, unpacked
from backends.compiler.conv.places import phase
from backends.compiler.conv.tiled import call, channels, corner, end, tile, tiled
from backends.compiler.margin import function, quoted


def kernel(conv: Convolved, name: str) -> str:
    """Write the kernel."""
    met = " and ".join(conv.list("o{l} = i{l} * stride_{l} - padding_{l} + k{l} * dilation_{l}"))
    meaning = (
        f"y[n, oc, {conv.each('o{l}')}] is the sum over (ic, {conv.each('k{l}')}) of weight[ic, oc, "
        f"{conv.each('k{l}')}] * x[n, ic, {conv.each('i{l}')}] where {met}"
    )
    exists = " & ".join(["(n < N)", *conv.list("(o{l} >= 0) & (o{l} < O{L})")])
    tap = horner(conv.list("k{l}"), conv.list("K{L}"))
    weight = f"(({tap})[:, None] * OC + oc) * {conv.depth} + ic[:, None]"
    lines = [
        *(["group = tl.program_id(1)"] if conv.is_grouped else []),
        *_phase(conv),
        "number = tl.program_id(0) // n_phases",
        *tile(conv, "number"),
        *_points(conv),
        f"exists = {exists}",
        corner(conv),
        "",
        f"K = {conv.each('taps_{l}', ' * ')} * {conv.depth}",
        *main_loop(conv, "exists", _taps(conv), weight),
        *end(conv, "exists"),
    ]
    return tiled(conv, name, _sizes(conv), [*conv.constants, *conv.list("step_{l}")], meaning, lines)


def _sizes(conv: Convolved) -> list[str]:
    return ["N", *channels(conv), *conv.list("I{L}"), *conv.list("O{L}"), *conv.list("Q{L}")]


def _phase(conv: Convolved) -> list[str]:
    """Choose the program's phase, and find its taps."""
    taps = "tap_{l}, taps_{l} = taps_of_phase(phase_{l}, K{L}, stride_{l}, dilation_{l}, step_{l})"
    return [*phase(conv), *conv.list(taps)]


def _points(conv: Convolved) -> list[str]:
    """Define the tile's output points; the input that lies at the quotient of its place is the first."""
    quotients, sample = divided(conv.point, conv.list("first_{l}"), conv.list("Q{L}"))
    return [
        *quotients,
        f"n = ({sample}).to(tl.int64)",
        *conv.list("o{l} = first_{l} * stride_{l} + phase_{l} - padding_{l}"),
    ]


def _taps(conv: Convolved) -> list[str]:
    """Take k apart: the input channel first, so that a tile of the weight lies together."""
    turns, first = divided(f"k // {conv.depth}", conv.list("k{l}")[1:], conv.list("taps_{l}")[1:])
    turns.append(f"k{conv.letters[0]} = {first}")
    return [
        f"ic = (k % {conv.depth}).to(tl.int64)",
        *(line.replace(" = ", f" = tap_{line[1]} + ", 1) + f" * step_{line[1]}" for line in turns),
        "# divides without a rest: taps of this phase",
        *conv.list("d{l} = (phase_{l} - k{l} * dilation_{l}) // stride_{l}"),
    ]


def launcher(conv: Convolved, name: str) -> str:
    """Write the function that launches the kernel."""
    stride, padding, dilation, more = (conv.setting(n) for n in ("stride", "padding", "dilation", "output_padding"))
    weight, groups = conv.weight, conv.group_count
    taps = [*range(2, len(conv.letters) + 2)]
    if conv.is_grouped:
        order = ", ".join(map(str, [*(dim + 1 for dim in taps), 0, 2, 1]))
        laid_out = f"{weight} = {weight}.unflatten(0, ({groups}, ICG)).permute({order}).contiguous()"
    else:
        laid_out = f"{weight} = {weight}.permute({', '.join(map(str, taps))}, 1, 0).contiguous()"
    points = f"N * {conv.each('Q{L}', ' * ')}"
    programs = f"math.prod({stride}) * triton.cdiv({points}, block_p) * triton.cdiv({conv.width}, block_oc)"
    letters = list(enumerate(conv.letters.upper()))
    lines = [
        *unpacked(conv),
        *refuse_groups(conv),
        *([f"OC, ICG = OCG * {groups}, IC // {groups}"] if conv.is_grouped else []),
        f"expect_shape({weight}, (IC, {conv.width}, {conv.each('K{L}')}))",
        *(
            f"O{x} = (I{x} - 1) * {stride}[{at}] - 2 * {padding}[{at}] + {dilation}[{at}] * (K{x} - 1) "
            f"+ {more}[{at}] + 1"
            for at, x in letters
        ),
        *checks(conv),
        "# taps, output channels, input channels: what a tile reads lies together",
        laid_out,
        *allocations(conv),
        "# the places that one phase has at most",
        *(f"Q{x} = (O{x} - 1 + {padding}[{at}]) // {stride}[{at}] + 1" for at, x in letters),
        "# from one tap of a phase to its next",
        f"step = [s // math.gcd(s, d) for s, d in zip({stride}, {dilation})]",
        f"most = {conv.depth} * {conv.each('K{L}', ' * ')}",
        f"block_p, block_oc, block_k, warps = conv_tile({points}, {conv.width}, most)",
        *call(
            conv,
            name,
            f"({programs}, {groups})" if conv.is_grouped else f"({programs},)",
            _sizes(conv),
            [*conv.list("K{L}"), *(f"*{setting}" for setting in (stride, padding, dilation, "step"))],
            ["BLOCK_P=block_p", "BLOCK_OC=block_oc", "BLOCK_K=block_k", "num_warps=warps"],
        ),
        f"return {', '.join(conv.signature.results.values())}",
    ]
    doc = quoted(launch_over(conv, f"the {conv.point}s of each phase and output channels"))
    return function(name, conv.signature.parameters, doc, lines)
