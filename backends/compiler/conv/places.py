"""Where a program of shifted rows is: its tile of the grid of places, the outputs in it, and where those are stored."""

from __future__ import annotations

from backends.compiler.conv.convolved import Convolved
from backends.compiler.conv.gather import divided, horner
from backends.compiler.conv.tail import Place, tail


def phase(conv: Convolved) -> list[str]:
    """Choose a transposed convolution's phase."""
    phases, first = divided("phase", conv.list("phase_{l}")[1:], conv.list("stride_{l}")[1:])
    return [
        "# outputs of one phase, (o + padding) % stride, are reached by the same taps",
        f"n_phases: tl.constexpr = {conv.each('stride_{l}', ' * ')}",
        "phase = tl.program_id(0) % n_phases",
        *phases,
        f"phase_{conv.letters[0]} = {first}",
    ]


def tile(conv: Convolved) -> list[str]:
    """Choose the program's first place and its first channel."""
    number = "tl.program_id(0) // n_phases" if conv.op.is_transposed else "tl.program_id(0)"
    first = "group * OCG + " if conv.is_grouped else ""
    return [
        f"# neighbouring programs take the same {conv.point}s: they find them in the L2 cache",
        f"oc_tiles = tl.cdiv({conv.width}, BLOCK_OC)",
        f"start = {number} // oc_tiles * BLOCK_P",
        f"first_oc = {first}{number} % oc_tiles * BLOCK_OC",
    ]


def output_channels() -> list[str]:
    """Define the tile's channels."""
    return [
        "# int64: the tensors may hold more than 2**31 elements",
        "oc = (first_oc + tl.arange(0, BLOCK_OC)[None, :]).to(tl.int64)",
    ]


def outputs(conv: Convolved, start: str, count: str) -> list[str]:
    """Define the outputs at so many places."""
    return [
        f"{conv.point} = {start} + tl.arange(0, {count})[:, None]",
        *(_transposed_points(conv) if conv.op.is_transposed else _points(conv)),
        f"inside = exists & ({conv.channel_mask})",
    ]


def _points(conv: Convolved) -> list[str]:
    """Define the tile's outputs; the grid has more places than those along each dimension."""
    points, sample = divided(conv.point, conv.list("o{l}"), conv.list("G{L}"))
    exists = " & ".join(["(n < N)", *conv.list("(o{l} < O{L})")])
    return [*points, f"n = ({sample}).to(tl.int64)", f"exists = {exists}"]


def _transposed_points(conv: Convolved) -> list[str]:
    """Define the tile's outputs; the input that lies at the quotient of its place is the first."""
    quotients, sample = divided(conv.point, conv.list("first_{l}"), conv.list("G{L}"))
    exists = " & ".join(["(n < N)", *conv.list("(o{l} >= 0) & (o{l} < O{L})")])
    return [
        *quotients,
        f"n = ({sample}).to(tl.int64)",
        *conv.list("o{l} = first_{l} * stride_{l} + phase_{l} - padding_{l}"),
        f"exists = {exists}",
    ]


def end(conv: Convolved) -> list[str]:
    """Place the output's elements, apply the tail and store."""
    lengths, points = conv.list("O{L}"), conv.list("o{l}")
    per_point = horner([f"n * OC * {lengths[0]} + {points[0]}", *points[1:]], ["", *lengths[1:]])
    return [
        f"# said for the order of threads alone, which then is along a line of {conv.point}s",
        f"place = tl.max_contiguous({per_point}, [16, 1]) + oc * {' * '.join(lengths)}",
        *tail(conv, Place("exists", conv.channel_mask)),
    ]
