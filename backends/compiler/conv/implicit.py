"""Convolution on the tensor cores, any stride, padding, dilation and number of groups."""

from __future__ import annotations

from backends.compiler.conv.convolved import Convolved
from backends.compiler.conv.gather import divided, main_loop
from backends.compiler.conv.launch import allocations, checks, launch_over, output_sizes, unpacked
from backends.compiler.conv.tiled import call, channels, corner, end, tile, tiled
from backends.compiler.margin import function, quoted


def kernel(conv: Convolved, name: str) -> str:
    """Write the kernel."""
    read = conv.each("o{l} * stride_{l} - padding_{l} + k{l} * dilation_{l}")
    meaning = (
        f"y[n, oc, {conv.each('o{l}')}] is the sum over (ic, {conv.each('k{l}')}) of weight[oc, ic, "
        f"{conv.each('k{l}')}] * x[n, ic, {read}]"
    )
    exists = f"{conv.point} < n_{conv.point}s"
    points, sample = divided(conv.point, conv.list("o{l}"), conv.list("O{L}"))
    taps, channel = divided("k", conv.list("k{l}"), conv.list("K{L}"))
    k_parts = [*taps, f"ic = ({channel}).to(tl.int64)", *conv.list("d{l} = k{l} * dilation_{l}")]
    lines = [
        *(["group = tl.program_id(1)"] if conv.is_grouped else []),
        *tile(conv, "tl.program_id(0)"),
        *points,
        f"n = ({sample}).to(tl.int64)",
        *conv.list("first_{l} = o{l} * stride_{l} - padding_{l}"),
        corner(conv),
        "",
        *main_loop(conv, f"({exists})", k_parts, "oc * K + k[:, None]"),
        *end(conv, exists),
    ]
    return tiled(conv, name, _sizes(conv), conv.constants, meaning, lines)


def _sizes(conv: Convolved) -> list[str]:
    return [f"n_{conv.point}s", *channels(conv), *conv.list("I{L}"), *conv.list("O{L}"), "K"]


def launcher(conv: Convolved, name: str) -> str:
    """Write the function that launches the kernel."""
    points = f"n_{conv.point}s"
    programs = f"triton.cdiv({points}, block_p) * triton.cdiv({conv.width}, block_oc)"
    lines = [
        *unpacked(conv),
        *output_sizes(conv),
        *checks(conv),
        *allocations(conv),
        f"{points} = N * {conv.each('O{L}', ' * ')}",
        *(["OCG = OC // (IC // ICG)"] if conv.is_grouped else []),
        f"K = {conv.depth} * {conv.each('K{L}', ' * ')}",
        f"block_p, block_oc, block_k, warps = conv_tile({points}, {conv.width}, K)",
        *call(
            conv,
            name,
            f"({programs}, IC // ICG)" if conv.is_grouped else f"({programs},)",
            _sizes(conv),
            [*conv.list("K{L}"), *(f"*{conv.setting(n)}" for n in ("stride", "padding", "dilation"))],
            ["BLOCK_P=block_p", "BLOCK_OC=block_oc", "BLOCK_K=block_k", "num_warps=warps"],
        ),
        f"return {', '.join(conv.signature.results.values())}",
    ]
    doc = quoted(launch_over(conv, f"{conv.point}s and output channels"))
    return function(name, conv.signature.parameters, doc, lines)
