"""Axes: neighbouring dimensions are walked as one where every operand has both or lacks both."""

from __future__ import annotations

import pytest
import torch

from backends.compiler import scanframes
from backends.compiler.axes import Layout, NoLayout, address, layout
from backends.compiler.expression import Expr, Index, Ref, where
from backends.compiler.frames import choose
from backends.compiler.group import Group
from backends.compiler.ir import Op, Origin, Pointwise, Reduce, Size, Value


def value(*sizes: int) -> Value:
    return Value("x", tuple(map(Size, sizes)), torch.float32)


def read(x: Value) -> Expr:
    return Ref(torch.float32, x)


def group(expr: Expr, out: Value, dims: tuple[int, ...] = ()) -> Group:
    """One operation, and a sum over `dims` of what it makes where there are any."""
    ops: list[Op] = [Pointwise("step", out, Origin(), expr)]
    last = out
    if dims:
        last = Value("total", tuple(Size(1) if at in dims else s for at, s in enumerate(out.shape)), torch.float32)
        ops.append(Reduce("sum", last, Origin(), "sum", out, dims))
    return Group("reduction" if dims else "elementwise", out.shape, 0, ops, dims, [last])


def runs(found: Layout) -> list[tuple[int, ...]]:
    return [axis.dims for axis in found.axes]


def test_operands_of_one_shape_are_one_axis() -> None:
    """Adding two tensors of the same shape walks memory once, whatever the rank."""
    found = layout(group(read(value(2, 3, 8)) + read(value(2, 3, 8)), value(2, 3, 8)))
    assert runs(found) == [(0, 1, 2)]
    assert choose(found).is_flat


def test_a_bias_over_the_last_dimension_makes_two_axes() -> None:
    """What lacks the leading dimensions parts them from the last."""
    assert runs(layout(group(read(value(2, 3, 8)) + read(value(8)), value(2, 3, 8)))) == [(0, 1), (2,)]


def test_one_number_a_channel_makes_three_axes() -> None:
    """A scale [C, 1] inside [N, C, W] parts all three; the two behind a channel stay one."""
    assert runs(layout(group(read(value(2, 3, 8)) * read(value(3, 1)), value(2, 3, 8)))) == [(0,), (1,), (2,)]
    found = layout(group(read(value(2, 3, 4, 5)) * read(value(3, 1, 1)), value(2, 3, 4, 5)))
    assert runs(found) == [(0,), (1,), (2, 3)]


def test_a_dimension_of_size_one_is_no_axis() -> None:
    """Nothing walks along a single element, and what lies on both sides of it is one run of memory."""
    assert runs(layout(group(read(value(4, 1, 8)) + read(value(4, 1, 8)), value(4, 1, 8)))) == [(0, 2)]


def test_reduced_dimensions_are_parted_from_kept_ones() -> None:
    """A sum over the last two of three has one row axis and one reduced axis."""
    found = layout(group(read(value(4, 5, 6)) * 2.0, value(4, 5, 6), (1, 2)))
    assert ([a.dims for a in found.outer], [a.dims for a in found.reduced], found.inner) == ([(0,)], [(1, 2)], ())


def test_a_sum_over_the_middle_keeps_lanes_behind_it() -> None:
    """What lies behind the reduced run is read side by side."""
    found = layout(group(read(value(4, 5, 6)) * 2.0, value(4, 5, 6), (1,)))
    assert [a.dims for a in found.inner] == [(2,)]


def test_a_place_that_is_read_is_an_axis_of_its_own() -> None:
    """A coordinate can only be named where its dimension is not joined to another."""
    x = value(4, 5, 6)
    found = layout(group(where(Index(torch.int64, 2) > 1, read(x), 0.0), value(4, 5, 6)))
    assert runs(found) == [(0,), (1,), (2,)]
    assert found.index_names()[2] == found.axes[1].name


def test_addresses_follow_the_operand_s_own_axes() -> None:
    """The offset of an element counts only the axes its tensor has."""
    scale = value(3, 1)
    found = layout(group(read(value(2, 3, 8)) * read(scale), value(2, 3, 8)))
    assert address(found.covered(scale)) == "row"
    assert address(found.axes) == "(plane * n_rows + row) * n_columns + column"
    assert address(()) == ""


def test_reduced_dimensions_that_lie_apart_are_refused_or_stepped() -> None:
    """A sum over the first and last of three has no single reduced run."""
    with pytest.raises(NoLayout):
        layout(group(read(value(4, 5, 6)) * 2.0, value(4, 5, 6), (0, 2)))


@pytest.mark.parametrize(
    ("shape", "dims", "tile"),
    [
        ((5000, 49), (1,), "(BLOCK_LINES, BLOCK)"),
        ((5000, 9000), (1,), "(BLOCK_LINES, BLOCK)"),
        ((5000, 90_000), (1,), "(BLOCK,)"),
        ((49,), (0,), "(BLOCK,)"),
        ((5000, 49, 6), (1,), "(BLOCK_ROWS, BLOCK)"),
        ((5000, 49, 600), (1,), "(BLOCK_ROWS, BLOCK)"),
    ],
)
def test_a_program_holds_whole_rows_where_it_can(shape: tuple[int, ...], dims: tuple[int, ...], tile: str) -> None:
    """Short or long, rows that fit are one form of kernel; what does not fit, and a single row, are walked alone."""
    assert choose(layout(group(read(value(*shape)) * 2.0, value(*shape), dims))).tile == tile


def test_short_columns_of_several_planes_share_a_program() -> None:
    """Six columns of 49 rows would waste most of a program; 600 fill several."""
    few, many = (choose(layout(group(read(x) * 2.0, x, (1,)))) for x in (value(5000, 49, 6), value(5000, 49, 600)))
    assert few.grid == "(triton.cdiv(n_planes * n_columns, block),)"
    assert many.grid == "(n_planes, triton.cdiv(n_columns, block))"


def test_lines_that_are_divided_count_in_32_bits_and_no_further() -> None:
    """Several axes are parted by divisions, which are slow in 64 bits; a single one is only multiplied."""
    x, scale = value(50, 60, 70), value(60, 1)
    joint, single = (choose(layout(group(read(x) * factor, x, (2,)))) for factor in (read(scale), 2.0))
    assert joint.setup[:2] == (
        "line = tl.program_id(0) * BLOCK_LINES + tl.arange(0, BLOCK_LINES)[:, None]",
        "row = (line % n_rows).to(tl.int64)",
    )
    assert joint.limits[0][0] == "n_batches * n_rows > 2**31 - 2**16"
    assert single.setup[0].startswith("row = tl.program_id(0).to(tl.int64)")
    assert [condition for condition, _ in single.limits] == ["n_columns > 65536"]


def test_short_columns_are_scanned_in_one_step_from_either_end() -> None:
    """Coordinates run the other way, everything else is as in a reduction."""
    x = value(5000, 49, 6)
    found = layout(group(read(x) * 2.0, x, (1,)))
    there, back = (scanframes.choose(found, reverse=reverse) for reverse in (False, True))
    assert there.loop == back.loop == "" and there.grid == back.grid == choose(found).grid
    assert back.setup[-1] == "row = n_rows - 1 - tl.arange(0, BLOCK_ROWS).to(tl.int64)[:, None]"
