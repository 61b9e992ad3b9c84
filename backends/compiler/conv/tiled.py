"""What the kernels on the tensor cores have in common: parameters, the program's tile, the end behind the loop."""

from __future__ import annotations

from backends.compiler.conv.convolved import Convolved
from backends.compiler.conv.gather import horner
from backends.compiler.conv.tail import Place, tail
from backends.compiler.kernel import formula
from backends.compiler.margin import jit, launch, quoted

BLOCKS = ["BLOCK_P", "BLOCK_OC", "BLOCK_K"]


def tiled(conv: Convolved, name: str, sizes: list[str], constants: list[str], meaning: str, lines: list[str]) -> str:
    """Write a kernel: its parameters, what it computes, its lines."""
    return jit(
        f"{name}_kernel",
        parameters(conv, sizes, constants, BLOCKS),
        quoted(f"{formula(conv.group)}: {meaning}.", conv.group.lines),
        lines,
    )


def parameters(conv: Convolved, sizes: list[str], *constants: list[str]) -> list[list[str]]:
    """List a kernel's parameters: tensors, sizes and numbers, and what it is compiled for."""
    signature = conv.signature
    return [
        [f"{tensor}_ptr" for tensor in (*signature.operands.values(), *signature.results.values())],
        [*sizes, *conv.tail_scalars],
        *([f"{constant}: tl.constexpr" for constant in group] for group in constants),
    ]


def call(conv: Convolved, name: str, grid: str, sizes: list[str], *constants: list[str]) -> list[str]:
    """Write the launch of such a kernel."""
    signature = conv.signature
    tensors = [*signature.operands.values(), *signature.results.values()]
    return launch(f"{name}_kernel", grid, [tensors, [*sizes, *conv.tail_scalars], *constants])


def channels(conv: Convolved) -> list[str]:
    """The lengths that have to do with channels."""
    return ["IC", "OC", "ICG", "OCG"] if conv.is_grouped else ["IC", "OC"]


def tile(conv: Convolved, number: str) -> list[str]:
    """Choose the output points and channels of the program with this number."""
    group = "group * OCG + " if conv.is_grouped else ""
    return [
        f"# neighbouring programs take the same {conv.point}s: they find them in the L2 cache",
        f"oc_tiles = tl.cdiv({conv.width}, BLOCK_OC)",
        f"{conv.point} = {number} // oc_tiles * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]",
        f"oc = {group}{number} % oc_tiles * BLOCK_OC + tl.arange(0, BLOCK_OC)[None, :]",
        "# int64: the tensors may hold more than 2**31 elements",
        "oc = oc.to(tl.int64)",
    ]


def corner(conv: Convolved) -> str:
    """Define the offset of a point's first input."""
    channel = "n * IC + group * ICG" if conv.is_grouped else "n * IC"
    firsts, sizes = conv.list("first_{l}"), conv.list("I{L}")
    if conv.is_grouped:
        return f"corner = {horner([channel, *firsts], ['', *sizes])}"
    return f"corner = {horner([f'{channel} * {sizes[0]} + {firsts[0]}', *firsts[1:]], ['', *sizes[1:]])}"


def end(conv: Convolved, exists: str) -> list[str]:
    """Place the output's elements, apply the tail and store."""
    sizes, points = conv.list("O{L}"), conv.list("o{l}")
    per_point = horner([f"n * OC * {sizes[0]} + {points[0]}", *points[1:]], ["", *sizes[1:]])
    return [
        "",
        f"inside = {exists if exists.isidentifier() else f'({exists})'} & ({conv.channel_mask})",
        f"place = {per_point} + oc * {' * '.join(sizes)}",
        *tail(conv, Place(exists, conv.channel_mask)),
    ]
