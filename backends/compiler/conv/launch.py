"""What the launchers of convolutions have in common: sizes read from the tensors, checks, allocations."""

from __future__ import annotations

from backends.compiler.conv.convolved import Convolved
from backends.compiler.margin import TAB
from backends.compiler.shapes import contiguous, shape_checks


def launch_over(conv: Convolved, what: str) -> str:
    """Say over what a launcher launches, and the shapes."""
    taps = conv.each("K{L}")
    if conv.op.is_transposed:
        weight = f"(IC, OC // groups, {taps})" if conv.is_grouped else f"(IC, OC, {taps})"
    else:
        weight = f"(OC, IC // groups, {taps})" if conv.is_grouped else f"(OC, IC, {taps})"
    return (
        f"Launch over tiles of {what}: {conv.x} of shape (N, IC, {conv.each('I{L}')}), {conv.weight} of shape {weight}."
    )


def unpacked(conv: Convolved) -> list[str]:
    """Lay out what may be strided, read the sizes, and write down what no layer holds."""
    written = {
        name: setting.numbers for name, setting in conv.op.settings.items() if not setting.host and name != "groups"
    }
    if conv.op.is_transposed:
        weight = f"_, {'OCG' if conv.is_grouped else 'OC'}, {conv.each('K{L}')}"
    else:
        weight = f"OC, {'ICG' if conv.is_grouped else '_'}, {conv.each('K{L}')}"
    return [
        *contiguous(conv.signature.operands),
        f"N, IC, {conv.each('I{L}')} = {conv.x}.shape",
        f"{weight} = {conv.weight}.shape",
        *([f"{', '.join(written)} = {', '.join(map(str, written.values()))}"] if written else []),
    ]


def output_sizes(conv: Convolved) -> list[str]:
    """Compute the output's spatial sizes."""
    stride, padding, dilation = (conv.setting(name) for name in ("stride", "padding", "dilation"))
    sizes = conv.each("K{L}") + ("," if len(conv.letters) == 1 else "")
    if conv.op.is_same:
        return [
            "# the odd one of the added zeros lies behind",
            f"padding = [d * (size - 1) // 2 for d, size in zip({dilation}, ({sizes}))]",
            f"{conv.each('O{L}')} = {conv.each('I{L}')}",
        ]
    return [
        f"O{x} = (I{x} + 2 * {padding}[{at}] - {dilation}[{at}] * (K{x} - 1) - 1) // {stride}[{at}] + 1"
        for at, x in enumerate(conv.letters.upper())
    ]


def checks(conv: Convolved) -> list[str]:
    """Refuse what the kernel would read at the wrong places."""
    taps = conv.each("K{L}")
    return [
        *([] if conv.is_grouped or conv.op.is_transposed else [f"expect_shape({conv.weight}, (OC, IC, {taps}))"]),
        f"shape = (N, OC, {conv.each('O{L}')})",
        *([f"expect_shape({conv.bias}, (OC,))"] if conv.bias else []),
        *shape_checks({v: n for v, n in conv.tail_operands.items() if v is not conv.op.bias}, conv.op.out.shape, ""),
    ]


def allocations(conv: Convolved) -> list[str]:
    """Allocate the results beside the input."""
    return [
        f"{name} = {conv.x}.new_empty(shape{f', dtype={value.dtype}' if value.dtype != conv.op.x.dtype else ''})"
        for value, name in conv.signature.results.items()
    ]


def refuse_groups(conv: Convolved) -> list[str]:
    """Hold a kernel without groups to that."""
    setting = conv.op.settings["groups"]
    if conv.is_grouped or not setting.host:
        return []
    name = conv.setting("groups")
    return [f"if {name} != 1:", f'{TAB}raise ValueError(f"written for groups=1, not {{{name}}}")']
