"""Sums at places that other numbers name, by atomic additions: each element of the source goes where its index says."""

from __future__ import annotations

from backends.compiler.group import Group
from backends.compiler.ir import Scatter
from backends.compiler.kernel import KernelText, formula
from backends.compiler.margin import function, jit, launch, quoted
from backends.compiler.shapes import contiguous
from backends.compiler.signature import signature
from backends.compiler.steps import REFUSAL

SIZES = ("n_elements", "n_rows", "n_places", "n_columns")
"""Of the source; what the result has along the dimension; what the source has there, and behind it together."""
OWN_NAMES = (*SIZES, "inside", "offsets", "line", "place", "target", "where", "addend", "dim")


def write(group: Group, name: str) -> KernelText:
    """Write the kernel that adds, and the launcher that copies what it adds to."""
    op = group.ops[0]
    assert isinstance(op, Scatter)
    names = signature(group, OWN_NAMES)
    base, index, source = (names.operands[value] for value in (op.base, op.index, op.source))
    y = names.results[op.out]
    is_float, is_list = op.out.dtype.is_floating_point, len(op.index.shape) == 1
    at, last = f"[{op.dim}]", f"[{op.dim + 1}:]"
    own = [*dict.fromkeys([source, index])]
    doc = f"{formula(group)}: an element of {source} a lane, added where {index} says."
    order = ["# PyTorch, too, adds atomically: the order of a place's sums is not fixed"] if is_float else []
    lines = [
        "offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)",
        "inside = offsets < n_elements",
        "line = offsets // n_columns",
        "",
        f"addend = tl.load({source}_ptr + offsets, mask=inside, other=0)",
        f"target = tl.load({index}_ptr + {'line % n_places' if is_list else 'offsets'}, mask=inside, other=0)",
        *(["target = tl.where(target < 0, target + n_rows, target)"] if op.wraps else []),
        f'tl.device_assert((target >= 0) & (target < n_rows), "{REFUSAL}", mask=inside)',
        "place = (line // n_places * n_rows + target) * n_columns + offsets % n_columns",
        *order,
        f"tl.atomic_add({y}_ptr + place, addend, mask=inside)",
    ]
    parameters = [[f"{tensor}_ptr" for tensor in [*own, y]], list(SIZES), ["BLOCK: tl.constexpr"]]
    arguments = [[*own, y], list(SIZES), ["BLOCK=1024", "debug=True", "sanitize_overflow=False"]]
    rest = f"*{base}.shape[{op.dim + 1}:]"
    before = f"*{base}.shape[:{op.dim}], " if op.dim else ""
    behind = f", {rest}" if op.dim < len(op.base.shape) - 1 else "," if not op.dim else ""
    launcher = [
        *contiguous(names.operands),
        f"expect_shape({source}, ({before}{source}.shape{at}{behind}))",
        f"expect_shape({index}, {f'{source}.shape{at[:-1]}:{op.dim + 1}]' if is_list else f'{source}.shape'})",
        f"{y} = {base}.clone()",
        f"n_elements = {source}.numel()",
        f"n_rows, n_places = {base}.shape{at}, {source}.shape{at}",
        f"n_columns = math.prod({source}.shape{last})",
        *launch(f"{name}_kernel", "(triton.cdiv(n_elements, 1024),)", arguments),
        f"return {y}",
    ]
    text = quoted(f"Launch over all elements of {source}, added to a copy of {base} along dimension {op.dim}.")
    return KernelText(
        jit(f"{name}_kernel", parameters, quoted(doc, group.lines), lines),
        function(name, names.parameters, text, launcher),
        tuple(names.operands),
        tuple(names.scalars),
    )
