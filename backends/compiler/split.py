"""Few long rows: many programs reduce a share each, then one small kernel finishes every row."""

from __future__ import annotations

from textwrap import indent

from backends.compiler.axes import layout
from backends.compiler.body import identity
from backends.compiler.expression import compute_dtype
from backends.compiler.frames import Frame
from backends.compiler.fuse import Group
from backends.compiler.ir import Pointwise, Reduce, Value
from backends.compiler.kernel import NAME, TAB, Assembly, KernelText, capital, contiguous, docstring, formula, shape_checks
from backends.compiler.naming import chain
from backends.compiler.text import TYPES, Writer

PARTS = "PARTS"


def write(group: Group, squeezed: dict[Value, Value]) -> KernelText:
    """Write a two-stage reduction: two kernels, one launcher."""
    return Split(group, squeezed).kernel_pair()


class Split(Assembly):
    """Stage one like a streamed reduction whose programs share the rows; stage two over the partial results."""

    def __init__(self, group: Group, squeezed: dict[Value, Value]) -> None:
        super().__init__(group, _frame(group), squeezed)
        self.reductions = [op for op in group.ops if isinstance(op, Reduce)]
        self.after = _after(group)
        self.partials = {
            op: self.signature.names.unused(f"{op.label.strip('_')}_parts") for op in self.reductions
        }

    def kernel_pair(self) -> KernelText:
        name = NAME
        first = self._first(name)
        second, finals = self._second(name)
        return KernelText(
            chain(self.group.steps), first + "\n\n" + second, self._launcher(name, first, finals),
            tuple(self.signature.operands), tuple(self.signature.scalars),
            tuple(self.signature.results), tuple(self.body.writer.helpers), "split",
        )

    # ---- stage one ------------------------------------------------------------------------------

    def _first(self, name: str) -> str:
        before = [op for op in self.group.ops if op not in self.after and isinstance(op, Pointwise)]
        names: dict[Value, str] = dict(self.body.known)
        loads = [
            self.body.load(value, names)
            for value in dict.fromkeys(v for op in [*before, *self.reductions] for v in op.inputs)
            if value in self.signature.operands and value not in names
        ]
        work = [self.body.compute(op, names) for op in before]
        update, ends, starts = [], [], []
        row = f"{self.frame.line_name} * {PARTS} + " if self.frame.line else ""
        for op in self.reductions:
            acc = self.signature.names.unused(f"{op.label.strip('_')}_acc")
            value = self.body.masked(op, names)
            dtype = TYPES[compute_dtype(op.out.dtype if op.kind in ("sum", "mean") else op.source.dtype)]
            starts.append(f"{acc} = tl.full((BLOCK,), {identity(op)}, {dtype})")
            update.append(_update(op, acc, value))
            combined = _combine(op, acc)
            ends.append(f"tl.store({self.partials[op]}_ptr + {row}part, {combined})")
        stores = [self.body.store(value, names) for value in self.group.outputs if value in names]
        masks = self.body.mask_lines()
        lines = [
            *self.frame.setup, "part = tl.program_id(1)", *starts, self.frame.loop,
            *(TAB + line for line in [*self.frame.step, *masks, *loads, *work, *update, *stores]), *ends,
        ]
        pointers = [f"{n}_ptr" for n in self.signature.operands.values()]
        pointers += [
            f"{self.signature.results[v]}_ptr" for v in self.group.outputs if v in names
        ] + [f"{part}_ptr" for part in self.partials.values()]
        sizes = self._sizes(lines)
        self.first_sizes = sizes
        self.first_results = [self.signature.results[v] for v in self.group.outputs if v in names]
        self.first_scalars = [
            text for host, text in self.signature.scalars.items()
            if any(s.host == host for op in before for s in op.scalars)
        ]
        header = "\n".join(
            f"{TAB}{part}," for part in (", ".join(pointers), ", ".join([*sizes, *self.first_scalars]),
                                         "PARTS: tl.constexpr, BLOCK: tl.constexpr") if part
        )
        doc = docstring(
            self.group, f"{formula(self.group)}, first of two: several programs a row, each reduces its share."
        )
        body = "\n".join(TAB + line if line else "" for line in lines)
        return f"@triton.jit\ndef {name}_parts_kernel(\n{header}\n):\n{doc}\n{body}\n"

    # ---- stage two ------------------------------------------------------------------------------

    def _second(self, name: str) -> tuple[str, list[str]]:
        names: dict[Value, str] = {}
        row = f"row * {PARTS} + " if self.frame.line else ""
        lines = (["row = tl.program_id(0)"] if self.frame.line else []) + [f"part = tl.arange(0, {PARTS})"]
        writer = Writer(names, self.signature.scalars, {})
        writer.helpers = self.body.writer.helpers
        for op in self.reductions:
            local = self.body.name(op)
            tile = f"tl.load({self.partials[op]}_ptr + {row}part)"
            lines += self._finish(op, local, tile)
            names[op.out] = local
        extra: list[Value] = []
        for step in self.group.ops:
            if step not in self.after or not isinstance(step, Pointwise):
                continue
            for value in step.inputs:
                if value not in names:
                    where = "row" if value in self.signature.operands and self._has_rows(value) else ""
                    local = self.signature.names.unused(f"{self.signature.operands[value]}_value")
                    pointer = f"{self.signature.operands[value]}_ptr{' + ' + where if where else ''}"
                    lines.append(f"{local} = tl.load({pointer})")
                    names[value] = local
                    extra.append(value)
            text = writer.write(step.expr)
            names[step.out] = self.body.name(step)
            lines.append(f"{names[step.out]} = {text}")
        finals = [v for v in self.group.outputs if v in names]
        for value in finals:
            pointer = f"{self.signature.results[value]}_ptr{' + row' if self.frame.line else ''}"
            lines.append(f"tl.store({pointer}, {names[value]})")
        self.second_operands = [self.signature.operands[v] for v in dict.fromkeys(extra)]
        pointers = [f"{part}_ptr" for part in self.partials.values()]
        pointers += [f"{n}_ptr" for n in [*self.second_operands, *(self.signature.results[v] for v in finals)]]
        self.second_scalars = list(self.signature.scalars.values())
        words = " ".join(lines)
        self.second_scalars = [s for s in self.second_scalars if s in words]
        count = ["n_places"] if "n_places" in words else []
        self.second_count = bool(count)
        header = f"{TAB}{', '.join(pointers)},\n" + (
            f"{TAB}{', '.join([*count, *self.second_scalars])},\n" if count or self.second_scalars else ""
        ) + f"{TAB}PARTS: tl.constexpr,\n"
        body = "\n".join(TAB + line for line in lines)
        doc = f'{TAB}"""{capital(formula(self.group))}, second of two: combine a row\'s shares."""'
        text = f"@triton.jit\ndef {name}_kernel(\n{header}):\n{doc}\n{body}\n"
        return text, [self.signature.results[value] for value in finals]

    def _has_rows(self, value: Value) -> bool:
        return bool(self.frame.layout.covered(value))

    def _finish(self, op: Reduce, result: str, tile: str) -> list[str]:
        if op.kind == "sum":
            return [f"{result} = tl.sum({tile}, axis=0)"]
        if op.kind == "mean":
            less = f"(n_places - {float(op.correction)})" if op.correction else "n_places"
            return [f"{result} = tl.sum({tile}, axis=0) / {less}"]
        return self.body.finish(op, result, tile)

    # ---- the launcher ---------------------------------------------------------------------------

    def _launcher(self, name: str, first: str, finals: list[str]) -> str:
        operands = self.signature.operands
        like = next(iter(operands.values()))
        lines = contiguous(operands)
        lines.append(f"shape = {self._shape()}")
        lines += shape_checks(operands, self.group.domain, self._shape())
        lines += [self._allocation(value, text) for value, text in self.signature.results.items()]
        every = [*self.first_sizes, *(axis.size for axis in self.frame.layout.axes)]
        size_lines, _ = self._size_lines(every)
        lines += size_lines
        rows = " * ".join(axis.size for axis in self.frame.layout.outer) or "1"
        places = " * ".join(axis.size for axis in self.frame.layout.reduced)
        lines.append(f"parts = max(min(triton.next_power_of_2(triton.cdiv({places}, 4096)), 1024), 1)")
        for op, part in self.partials.items():
            dtype = compute_dtype(op.out.dtype if op.kind in ("sum", "mean") else op.source.dtype)
            lines.append(f"{part} = {like}.new_empty(({rows}, parts), dtype={dtype})")
        arguments = ", ".join(
            [*operands.values(), *self.first_results, *self.partials.values(), *self.first_sizes, *self.first_scalars]
        )
        lines.append(f"{name}_parts_kernel[({rows}, parts)]({arguments}, PARTS=parts, BLOCK=4096, num_warps=8)")
        arguments = ", ".join(
            [*self.partials.values(), *self.second_operands, *finals, *([places] if self.second_count else []),
             *self.second_scalars]
        )
        lines.append(f"{name}_kernel[({rows},)]({arguments}, PARTS=parts)")
        lines.append(f"return {', '.join(self.signature.results.values())}")
        parameters = ", ".join([*operands.values(), *self.signature.scalars.values()])
        return f"def {name}({parameters}):\n" + indent("\n".join(lines), TAB) + "\n"


def _after(group: Group) -> set[object]:
    made = {op.out for op in group.ops if isinstance(op, Reduce)}
    found: set[object] = set()
    for op in group.ops:
        if any(value in made for value in op.inputs):
            made.add(op.out)
            found.add(op)
    return found


def _update(op: Reduce, acc: str, value: str) -> str:
    if op.kind in ("sum", "mean"):
        return f"{acc} += {value}"
    function = "tl.maximum" if op.kind.startswith("max") else "tl.minimum"
    nan = ", propagate_nan=tl.PropagateNan.ALL" if op.source.dtype.is_floating_point else ""
    return f"{acc} = {function}({acc}, {value}{nan})"


def _combine(op: Reduce, acc: str) -> str:
    if op.kind in ("sum", "mean"):
        return f"tl.sum({acc}, axis=0)"
    function = "tl.max" if op.kind.startswith("max") else "tl.min"
    if not op.source.dtype.is_floating_point or op.kind == "max_skipping_nan":
        return f"{function}({acc}, axis=0)"
    return f'tl.where(tl.max(({acc} != {acc}).to(tl.int32), axis=0) > 0, float("nan"), {function}({acc}, axis=0))'


def _frame(group: Group) -> Frame:
    shape = layout(group)
    length = " * ".join(axis.size for axis in shape.reduced)
    place = shape.reduced[-1].name if len(shape.reduced) == 1 else "place"
    outer = shape.outer
    lines: list[str] = []
    name = ""
    if outer:
        name = outer[0].name if len(outer) == 1 else "line"
        lines = [f"{name} = tl.program_id(0).to(tl.int64)"]
        rest = name
        for axis in reversed(outer[1:]):
            lines.append(f"{axis.name} = {rest} % {axis.size}")
            rest = f"{rest} // {axis.size}"
        if len(outer) > 1:
            lines.append(f"{outer[0].name} = {rest}")
    steps = [f"{place} = start + tl.arange(0, BLOCK)"]
    rest = place
    for axis in reversed(shape.reduced[1:]):
        steps.append(f"{axis.name} = {rest} % {axis.size}")
        rest = f"{rest} // {axis.size}"
    if len(shape.reduced) > 1:
        steps.append(f"{shape.reduced[0].name} = {rest}")
    return Frame(
        shape, tuple(lines), tuple(steps), {"inside": f"{place} < {length}"},
        {"all": "inside", "line": "", "reduced": "inside"}, "axis=0", "(BLOCK,)",
        f"for start in range(part.to(tl.int64) * BLOCK, {length}, {PARTS} * BLOCK):", {"BLOCK": "4096"}, (), "", "8",
        "two stages", outer, name,
    )
