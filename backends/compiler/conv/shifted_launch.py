"""The launchers of shifted rows: the grid of places, the layouts, the blocks that TMA copies."""

from __future__ import annotations

from backends.compiler.axes import presence
from backends.compiler.conv import exact
from backends.compiler.conv.convolved import Convolved
from backends.compiler.conv.launch import allocations, checks, launch_over, output_sizes, refuse_groups, unpacked
from backends.compiler.conv.shifted import BOXES, sizes, tensors
from backends.compiler.margin import function, launch, quoted


def launcher(conv: Convolved, name: str) -> str:
    """Write the function that lays the operands out and launches the kernel."""
    prepare = _transposed if conv.op.is_transposed else _forward
    lines = [*prepare(conv), *_launch(conv, name), f"return {', '.join(conv.signature.results.values())}"]
    doc = quoted(launch_over(conv, f"{conv.point}s and output channels"))
    return function(name, conv.signature.parameters, doc, lines)


def _forward(conv: Convolved) -> list[str]:
    stride, padding, dilation = (conv.setting(name) for name in ("stride", "padding", "dilation"))
    last, w = len(conv.letters) - 1, conv.letters[-1].upper()
    strides = ", ".join([*["1"] * (2 - last), *(f"{stride}[{at}]" for at in range(last))])
    grid = [*conv.list("G{L}")[:-1], f"G{w} * {stride}[{last}]"]
    letters = list(enumerate(conv.letters.upper()))
    groups = "IC // ICG" if conv.is_grouped else "1"
    return [
        *unpacked(conv),
        *output_sizes(conv),
        *checks(conv),
        *allocations(conv),
        *(["OCG = OC // (IC // ICG)"] if conv.is_grouped else []),
        "# a grid of places: along each dimension so many more than outputs as the taps reach further",
        *(f"G{x} = O{x} + {dilation}[{at}] * (K{x} - 1) // {stride}[{at}]" for at, x in letters),
        _wide(w),
        *_layout(conv, f"{dilation}[{last}] == 1"),
        f"x_rows, x_range = shifted_rows({conv.x}, 1, {_tuple(1, grid)}, channels, {groups}, "
        f"{_padding(conv, padding)}, ({strides}))",
        f"weight_rows, weight_range = planes_of({conv.weight}, shifted_rows, OC, "
        f"{_tuple(1, [*conv.list('K{L}')[:-1], 'width'])}, channels)",
        *([f"n_rows = N * {conv.each('G{L}', ' * ')}"] if last else []),
        f"all_rows = {' * '.join([f'{stride}[{at}]' for at in range(last)] + ['n_rows' if last else _places(conv)])}",
        *_boxes(conv, f"{stride}[{last}] * ", f"{dilation}[{last}] * (K{w} - 1)"),
    ]


def _transposed(conv: Convolved) -> list[str]:
    stride, padding, dilation, more = (conv.setting(n) for n in ("stride", "padding", "dilation", "output_padding"))
    last, w = len(conv.letters) - 1, conv.letters[-1].upper()
    letters = list(enumerate(conv.letters.upper()))
    groups = conv.group_count if conv.is_grouped else "1"
    return [
        *unpacked(conv),
        *refuse_groups(conv),
        *([f"OC, ICG = OCG * {groups}, IC // {groups}"] if conv.is_grouped else []),
        f"expect_shape({conv.weight}, (IC, {conv.width}, {conv.each('K{L}')}))",
        *(
            f"O{x} = (I{x} - 1) * {stride}[{at}] - 2 * {padding}[{at}] + {dilation}[{at}] * (K{x} - 1) "
            f"+ {more}[{at}] + 1"
            for at, x in letters
        ),
        *checks(conv),
        *allocations(conv),
        "# a grid of places: those of one phase, and before them as many as the taps reach back",
        *(f"D{x} = {dilation}[{at}] * (K{x} - 1) // {stride}[{at}]" for at, x in letters),
        *(f"G{x} = (O{x} - 1 + {padding}[{at}]) // {stride}[{at}] + 1 + D{x}" for at, x in letters),
        _wide(w),
        "# from one tap of a phase to its next",
        f"step = [s // math.gcd(s, d) for s, d in zip({stride}, {dilation})]",
        *_layout(conv, f"{stride}[{last}] == {dilation}[{last}] == 1"),
        f"x_rows, x_range = shifted_rows({conv.x}, 1, {_tuple(1, conv.list('G{L}'))}, channels, {groups}, "
        f"{_tuple(0, conv.list('D{L}'))})",
        f"weight_rows, weight_range = planes_of({conv.weight}, flipped_rows, "
        f"{_tuple(1, [*conv.list('K{L}')[:-1], 'width'])}, channels, {groups})",
        f"all_rows = {_places(conv)}",
        *_boxes(conv, "", f"D{w}"),
    ]


def _wide(w: str) -> str:
    """Keep a line from being one place: then samples follow each other there, which do not lie together."""
    return f"G{w} = max(G{w}, 2)  # the kernel takes places that follow each other for neighbours"


def _layout(conv: Convolved, joins: str) -> list[str]:
    w = f"K{conv.letters[-1].upper()}"
    may_join = "False" if conv.is_grouped else joins
    # the numbers of a tensor that the tail reads, and their addresses, take the registers of half a tile
    places = 64 if any(all(presence(value.shape, conv.op.out.shape)) for value in conv.tail_operands) else 256
    return [
        f"block_p, block_oc, block_c, warps, stages = shifted_tile({conv.width}, {places})",
        f"channels, taps, columns, width, block_c = row_layout({conv.depth}, {w}, {may_join}, block_c)",
    ]


def _boxes(conv: Convolved, pitch: str, reach: str) -> list[str]:
    groups = f"{'(IC // ICG)' if not conv.op.is_transposed else conv.group_count} * " if conv.is_grouped else ""
    lines = [f"K{x.upper()}" for x in conv.letters[:-1]]
    return [
        f"n_channels, line = {groups}channels, width * channels",
        f"pitch, reach = {pitch}n_channels, ({reach} + 1) * n_channels",
        "x_rows = row_boxes(x_rows, pitch, reach, (block_p, block_c))",
        f"numbers = {' * '.join([*lines, 'line'])}",
        "weight_rows = row_boxes(weight_rows, numbers, numbers, (block_oc, block_c))",
    ]


def _launch(conv: Convolved, name: str) -> list[str]:
    phases = f"math.prod({conv.setting('stride')}) * " if conv.op.is_transposed else ""
    programs = f"{phases}triton.cdiv({_places(conv)}, block_p) * triton.cdiv({conv.width}, block_oc)"
    count = (conv.group_count if conv.op.is_transposed else "IC // ICG") if conv.is_grouped else "1"
    settings = [*conv.list("K{L}"), *(f"*{conv.setting(n)}" for n in ("stride", "padding", "dilation"))]
    blocks = ["BLOCK_P=block_p", "BLOCK_OC=block_oc"]
    return [
        f"grid = ({programs}, {count})",
        f"redo = {conv.x}.new_empty(grid, dtype=torch.int32)  # marks tiles for the second kernel",
        *launch(
            f"{name}_kernel",
            "grid",
            [
                [*BOXES, *tensors(conv)],
                [*sizes(conv), *conv.tail_scalars],
                [*settings, *(["*step"] if conv.op.is_transposed else [])],
                ["taps", *blocks, "BLOCK_C=block_c", "num_warps=warps", "num_stages=stages"],
            ],
        ),
        *launch(
            f"{name}_exact_kernel",
            "grid",
            [
                exact.tensors(conv),
                [*exact.sizes(conv), *conv.tail_scalars],
                settings,
                [*blocks, "num_warps=8", "num_stages=1"],
            ],
        ),
    ]


def _places(conv: Convolved) -> str:
    return f"N * {conv.each('G{L}', ' * ')}"


def _tuple(fill: int, parts: list[str]) -> str:
    return f"({', '.join([*[str(fill)] * (3 - len(parts)), *parts])})"


def _padding(conv: Convolved, padding: str) -> str:
    rank = len(conv.letters)
    return padding if rank == 3 else f"({'0, ' * (3 - rank)}*{padding})"
