"""A group → the text of its @triton.jit kernel and of the function that launches it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backends.compiler import ordering
from backends.compiler.address import starts
from backends.compiler.axes import layout
from backends.compiler.body import Body
from backends.compiler.expression import walk
from backends.compiler.frame import Frame
from backends.compiler.frames import choose
from backends.compiler.group import Group
from backends.compiler.indexed import Fold, Read
from backends.compiler.ir import Order, Pointwise, Reduce, Value
from backends.compiler.margin import TAB, function, jit, launch, quoted
from backends.compiler.passes import MASKS
from backends.compiler.reducing import finish, masked
from backends.compiler.schedule import Schedule
from backends.compiler.shapes import (
    allocation,
    contiguous,
    described,
    full_operand,
    host_shape,
    in_place,
    lengths,
    mapped_shape,
    measured,
    reading_checks,
    shape_checks,
    words,
)
from backends.compiler.signature import Signature, signature
from backends.compiler.stream import streamed

IN_LOOPS = (
    "anchor",
    "gap",
    "gaps",
    "seen",
    "squares",
    "lane_gap",
    "base",
    "from_base",
    "mean_gap",
    "offset",
    "lane_squares",
    "x_masked",
    "new_max",
    "shift",
    "lane_shift",
    "part",
    "n_places",
)
"""Names that streamed kernels use themselves."""

Squeezed = Mapping[Value, Value]
"""Results whose reduced dimensions everybody drops: they are allocated without."""


@dataclass(frozen=True)
class KernelText:
    """A kernel and its launcher, and what the launcher takes: tensors, then numbers.

    `planes` is how many float16 numbers it takes for a float32, 0 where it takes float32 as it is.
    """

    kernel: str
    launcher: str
    operands: tuple[Value, ...]
    scalars: tuple[str, ...]
    planes: int = 0


@dataclass(frozen=True)
class Plan:
    """What the texts of a kernel and of its launcher are written from."""

    group: Group
    frame: Frame
    signature: Signature
    squeezed: Squeezed


def planned(group: Group, frame: Frame, squeezed: Squeezed, more: Iterable[str] = ()) -> Plan:
    """Name what goes in and out of a group's kernel in this frame; `more` are names that its text uses itself."""
    axes = [name for axis in frame.layout.axes for name in (axis.name, axis.size)]
    own = [*frame.masks, *assigned(frame.setup), *assigned(frame.step), "n_elements", "has_nan"]
    taken = [*axes, *own, *(IN_LOOPS if frame.loop else ()), *more]
    starting = [measure for read in group.reads for measure in starts(read, frame)]
    return Plan(group, frame, signature(group, taken, starting), squeezed)


def write(group: Group, squeezed: Squeezed, name: str, schedule: Schedule) -> KernelText:
    """Write a kernel that is elementwise, reduces, or sorts."""
    if group.kind == "order":
        frame = ordering.framed(group, schedule.adapt(choose(layout(group))))
    else:
        frame = schedule.adapt(choose(layout(group), reads_many=_reads_many(group)))
    plan = planned(group, frame, squeezed, ordering.OWN_NAMES if group.kind == "order" else ())
    body = Body(group, plan.frame, plan.signature)
    return assembled(plan, body, streamed(body) if plan.frame.loop else _whole(body), name)


MANY_READS = 8


def _reads_many(group: Group) -> bool:
    """Tell whether an element is made of a window of numbers, or of one from each of many places."""
    nodes = [node for op in group.ops if isinstance(op, Pointwise) for node in walk(op.expr)]
    return any(isinstance(node, Fold) for node in nodes) or sum(isinstance(node, Read) for node in nodes) > MANY_READS


def assembled(plan: Plan, body: Body, written: list[str], name: str) -> KernelText:
    """Put a kernel's lines under its coordinates and masks, and write its launcher."""
    lines = _with_masks(body, written)
    names, used = plan.signature, words("\n".join(lines))
    sizes = [size for size in [*_sizes(plan.frame), *names.measures.values()] if size in used]
    scalars = [name for name in names.scalars.values() if name in used]
    parameters = [
        [f"{tensor}_ptr" for tensor in names.pointers],
        [*sizes, *scalars],
        [f"{constant}: tl.constexpr" for constant in plan.frame.constexprs],
    ]
    doc = quoted(f"{formula(plan.group)}: {plan.frame.summary}.", plan.group.lines)
    return KernelText(
        jit(f"{name}_kernel", parameters, doc, lines),
        _launcher(plan, name, sizes, scalars),
        tuple(names.operands),
        tuple(names.scalars),
    )


def formula(group: Group) -> str:
    """Say in PyTorch's words what a kernel computes."""
    return ", ".join(dict.fromkeys(group.steps))


def assigned(lines: tuple[str, ...]) -> set[str]:
    """Return the names that lines assign."""
    return {line.split(" = ")[0].strip() for line in lines if " = " in line}


# ---- the kernel ---------------------------------------------------------------------------------


def _whole(body: Body) -> list[str]:
    """Write everything for a tile that is read once."""
    lines, names = [], body.known
    for op in body.group.ops:
        lines += [body.load(value, names) for value in op.in_place if value not in names]
        if isinstance(op, Reduce):
            lines += finish(body, op, body.name(op), masked(body, op, names), body.layout.length)
            names[op.out] = body.name(op)
        elif isinstance(op, Order):
            lines += ordering.ordered(body, op, names)
        else:
            lines += body.steps(op, names)  # type: ignore[arg-type]
    for value in body.group.outputs:
        is_some = isinstance(value.op, Order) and value.op.count is not None
        lines += ordering.stored_first(body, value, names) if is_some else [body.store(value, names)]
    return lines


def _with_masks(body: Body, lines: list[str]) -> list[str]:
    """Define each mask as soon as its coordinates are: before the loop where it can be."""
    moving = assigned(body.frame.step)
    inside, outside = [], []
    for line in body.mask_lines():
        if words(line) & moving:
            inside.append(TAB + line)
            moving.add(line.split(" = ")[0])
        else:
            outside.append(line)
    read = words("\n".join([*lines, *outside, *inside, *body.frame.step]))
    setup: list[str] = []
    for line in reversed(body.frame.setup):  # a coordinate that nothing reads is none
        name, _, text = line.partition(" = ")
        if name in read:
            setup.insert(0, line)
            read |= words(text)
    placed = [*setup, *outside, ""]
    for line in lines:
        placed += inside if line.strip() == MASKS else [line]
    return placed


def _sizes(frame: Frame) -> list[str]:
    return list(dict.fromkeys([*(axis.size for axis in frame.layout.axes), "n_elements"]))


# ---- the launcher -------------------------------------------------------------------------------


def _launcher(plan: Plan, name: str, sizes: list[str], scalars: list[str]) -> str:
    frame, names = plan.frame, plan.signature
    needed = {
        *sizes,
        *words(" ".join([frame.grid, *frame.blocks, *(text for limit in frame.limits for text in limit)])),
    }
    groups = [
        [*names.pointers, *sizes, *scalars],
        [f"{constant}={value}" for constant, value in frame.constexprs.items()]
        + ([f"num_warps={frame.warps}"] if frame.warps != "4" else [])
        + (["debug=True", "sanitize_overflow=False"] if plan.group.refuses else []),
    ]
    lines = [
        *preparations(plan, needed),
        *(line for limit in frame.limits for line in _refused(*limit)),
        *frame.blocks,
        *launch(f"{name}_kernel", frame.grid, groups),
        *([f"return {', '.join(names.returned.values())}"] if names.returned else []),
    ]
    return function(name, names.parameters, quoted(launches(plan)), lines)


def _refused(condition: str, message: str) -> tuple[str, str]:
    """Write the lines that refuse sizes; a message with a size in it is filled in."""
    return f"if {condition}:", f'{TAB}raise ValueError({"f" if "{" in message else ""}"{message}")'


def launches(plan: Plan) -> str:
    """Say over what a launcher launches, and the shapes."""
    group, operands = plan.group, plan.signature.operands
    full = full_operand(in_place(group, operands), group.domain)
    of = full[1] if full else f"{' and '.join(operands.values())} broadcast together"
    if not full and group.elsewhere:
        of = next(iter(plan.signature.results.values()))
    shape = "of any shape" if plan.frame.is_flat else f"shape {described(plan.frame.layout)}"
    return f"Launch over {plan.frame.over} of {of}, {shape}."


def preparations(plan: Plan, needed: set[str]) -> list[str]:
    """Write what a launcher does before it launches: layouts, shape checks, allocations, lengths."""
    group, operands, domain = plan.group, plan.signature.operands, plan.group.domain
    beside = in_place(group, operands)
    shape = mapped_shape(group, plan.signature) or host_shape(beside, domain)
    of_any_shape = plan.frame.is_flat and all(len(value.shape) == len(domain) for value in beside)
    lines = [
        *shape_checks(beside, domain, shape, of_any_shape=of_any_shape),
        *reading_checks(group, plan.signature),
        *(
            allocation(plan.group, plan.signature, value, is_squeezed=value in plan.squeezed)
            for value in plan.signature.returned
        ),
        *lengths(plan.frame.layout, needed),
        *measured(plan.signature, needed),
    ]
    if "n_elements" in needed:
        full = full_operand(beside, domain)
        lines.append(f"n_elements = {full[1] if full else next(iter(plan.signature.results.values()))}.numel()")
    is_read = "shape" in words("\n".join(lines).replace(".shape", ""))
    return [*contiguous(operands), *([f"shape = {shape}"] if is_read else []), *lines]
