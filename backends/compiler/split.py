"""Few long rows: many programs reduce a share each, then one small kernel finishes every row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from backends.compiler.axes import layout, product
from backends.compiler.body import Body
from backends.compiler.group import Group
from backends.compiler.ir import Pointwise, Reduce, Value
from backends.compiler.kernel import KernelText, Plan, Squeezed, formula, launches, planned, preparations
from backends.compiler.margin import function, jit, launch, quoted
from backends.compiler.passes import MASKS, inside, loop
from backends.compiler.reducing import accumulator_dtype, combined, finish, masked, updated
from backends.compiler.rowframes import shared_rows
from backends.compiler.shapes import words
from backends.compiler.stream import accumulator

COUNT = "n_places"
"""Stage two's argument for the number of elements that a mean divides by."""


@dataclass(frozen=True)
class Stage:
    """One of the two kernels, as the tensors and numbers it takes, its constants and its lines."""

    tensors: tuple[str, ...]
    numbers: tuple[str, ...]
    constants: tuple[str, ...]
    lines: tuple[str, ...]

    def kernel(self, name: str, doc: list[str]) -> str:
        """Write the stage's kernel."""
        groups = [
            [f"{tensor}_ptr" for tensor in self.tensors],
            list(self.numbers),
            [f"{constant}: tl.constexpr" for constant in self.constants],
        ]
        return jit(name, groups, doc, self.lines)


def write(group: Group, squeezed: Squeezed, name: str) -> KernelText:
    """Write a two-stage reduction: two kernels, one launcher."""
    plan = planned(group, shared_rows(layout(group)), squeezed)
    body = Body(group, plan.frame, plan.signature)
    parts = {op: plan.signature.names.unused(f"{op.label.strip('_')}_parts") for op in group.reductions}
    first, second = _first(plan, body, parts), _second(plan, body, parts)
    summary = "first of two: several programs a row, each reduces its share"
    kernels = [
        first.kernel(f"{name}_parts_kernel", quoted(f"{formula(group)}, {summary}.", group.lines)),
        second.kernel(f"{name}_kernel", quoted(f"{formula(group)}, second of two: combine a row's shares.")),
    ]
    return KernelText(
        "\n\n".join(kernels),
        _launcher(plan, name, parts, first, second),
        tuple(plan.signature.operands),
        tuple(plan.signature.scalars),
    )


def _stage(plan: Plan, tensors: Iterable[str], constants: tuple[str, ...], lines: list[str]) -> Stage:
    used = words("\n".join(lines))
    lengths = dict.fromkeys([*(axis.size for axis in plan.frame.layout.axes), COUNT])
    numbers = [name for name in [*lengths, *plan.signature.scalars.values()] if name in used]
    return Stage(tuple(tensors), tuple(numbers), constants, tuple(lines))


def _first(plan: Plan, body: Body, parts: dict[Reduce, str]) -> Stage:
    """Reduce a share of a row, and store what was computed of its elements on the way."""
    group, tail = plan.group, plan.group.tail
    names: dict[Value, str] = {}
    before = [op.out for op in group.ops if isinstance(op, Pointwise) and op not in tail]
    block = inside(body, [*before, *(op.source for op in parts)], names)
    block += [updated(op, f"{body.name(op)}_acc", masked(body, op, names)) for op in parts]
    results = [value for value in group.outputs if value in names]
    block += [body.store(value, names) for value in results]
    block = [line for text in block for line in (body.mask_lines() if text == MASKS else [text])]
    row = f"{plan.frame.line_name} * PARTS + " if plan.frame.line else ""
    ends = []
    for op, part in parts.items():
        share = f"{body.name(op)}_share"
        ends += [*combined(body, op, share, f"{body.name(op)}_acc"), f"tl.store({part}_ptr + {row}part, {share})"]
    starts = [line for op in parts for line in accumulator(body, op)]
    lines = [*plan.frame.setup, "part = tl.program_id(1)", "", *starts, *loop(body, block), *ends]
    operands = [plan.signature.operands[value] for value in group.leaves if value in names]
    stored = [plan.signature.results[value] for value in results]
    return _stage(plan, [*operands, *stored, *parts.values()], ("PARTS", "BLOCK"), lines)


def _second(plan: Plan, body: Body, parts: dict[Reduce, str]) -> Stage:
    """Combine a row's shares, and compute what reads the reduced results."""
    names: dict[Value, str] = {}
    row = f"{plan.frame.line_name} * PARTS + " if plan.frame.line else ""
    lines = []
    for op, part in parts.items():
        lines += finish(body, op, body.name(op), f"tl.load({part}_ptr + {row}part)", COUNT)
        names[op.out] = body.name(op)
    loaded = []
    for step in plan.group.tail:
        assert isinstance(step, Pointwise)
        missing = [value for value in step.in_place if value not in names]
        lines += [body.load(value, names) for value in missing]
        lines += body.steps(step, names)
        loaded += missing
    results = [value for value in plan.group.outputs if value in names and value not in loaded]
    lines += [body.store(value, names) for value in results]
    setup = [*plan.frame.setup, "part = tl.arange(0, PARTS)"]
    for line in reversed(setup):  # only the coordinates that something below reads
        if line.split(" = ")[0] in words("\n".join(lines)):
            lines.insert(0, line)
    tensors = [*parts.values(), *(plan.signature.names_of[value] for value in [*loaded, *results])]
    return _stage(plan, dict.fromkeys(tensors), ("PARTS",), lines)


def _launcher(plan: Plan, name: str, parts: dict[Reduce, str], first: Stage, second: Stage) -> str:
    frame, names = plan.frame, plan.signature
    rows, places = product(frame.layout.outer), frame.layout.length
    like = next(iter(names.operands.values()))
    numbers = [places if number == COUNT else number for number in second.numbers]
    lines = [
        *preparations(plan, {axis.size for axis in frame.layout.axes}),
        f"parts = max(min(triton.next_power_of_2(triton.cdiv({places}, 4096)), 1024), 1)",
        *(f"{part} = {like}.new_empty(({rows}, parts), dtype={accumulator_dtype(op)})" for op, part in parts.items()),
        *launch(
            f"{name}_parts_kernel",
            frame.grid,
            [[*first.tensors, *first.numbers], ["PARTS=parts", "BLOCK=4096", f"num_warps={frame.warps}"]],
        ),
        *launch(f"{name}_kernel", f"({rows},)", [[*second.tensors, *numbers], ["PARTS=parts"]]),
        f"return {', '.join(names.results.values())}",
    ]
    return function(name, names.parameters, quoted(launches(plan)), lines)
