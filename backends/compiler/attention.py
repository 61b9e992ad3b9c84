"""Attention in one kernel: a block of rows of q walks over k and v, the softmax rescaled as it goes.

Scores are never stored (Milakov and Gimelshein, 2018; Dao et al., 2022). Operands are read by their strides.
"""

from __future__ import annotations

from backends.compiler.attention_launch import launcher
from backends.compiler.attention_plan import Plan, plan
from backends.compiler.body import loaded
from backends.compiler.group import Group
from backends.compiler.ir import Pointwise, Value
from backends.compiler.kernel import KernelText
from backends.compiler.margin import TAB, jit, quoted
from backends.compiler.text import TYPES, Writer

MINUS_INFINITY = 'float("-inf")'


def write(group: Group, name: str) -> KernelText:
    """Write one attention."""
    made = plan(group)
    names = made.signature
    return KernelText(_kernel(made, name), launcher(made, name), tuple(names.operands), tuple(names.scalars))


def _kernel(plan: Plan, name: str) -> str:
    beside = plan.beside
    pointers = [f"{tensor}_ptr" for tensor in ("q", "k", "v", *beside.values(), plan.result)]
    sizes = [*(size for _, size in plan.batch[1:]), "n_rows", "n_columns", "depth", "v_depth"]
    strides = [stride for operand in plan.strides for stride in operand]
    blocks = [f"{block}: tl.constexpr" for block in ("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_V")]
    groups = [pointers, [*sizes, *plan.numbers], strides, blocks]
    doc = quoted(f"{plan.formula}: a block of rows a program, no score is stored.", plan.group.lines)
    walk = _Steps(plan)
    inside = walk.lines()
    lines = [
        *_places(plan),
        *walk.before,
        *_starts(plan),
        "",
        f"for start in range(0, {_end(plan)}, BLOCK_N):",
        *(TAB + line for line in inside),
        "",
        *_results(plan),
    ]
    return jit(f"{name}_kernel", groups, doc, lines)


def _places(plan: Plan) -> list[str]:
    """Find the program's rows, load them, and point at its k and v."""
    tile = "tl.program_id(0) % tiles"
    lines = ["tiles = tl.cdiv(n_rows, BLOCK_M)"]
    if plan.is_causal:
        lines += ["# the rows that walk furthest first", f"tile = tiles - 1 - {tile}"]
    else:
        lines += [f"tile = {tile}"]
    lines += [
        "# int64: an offset may pass 2**31",
        "matrix = (tl.program_id(0) // tiles).to(tl.int64)",
        *plan.coordinates(),
        "row = (tile * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]",
        "row_inside = row < n_rows",
        "d = tl.arange(0, BLOCK_D)",
        "v_d = tl.arange(0, BLOCK_V)[None, :]",
        f"q_rows = q_ptr + {plan.offset('q')}row * q_row_stride",
        "q = tl.load(q_rows + d[None, :], mask=row_inside & (d[None, :] < depth), other=0.0)",
    ]
    for letter in "kv" if plan.batch else "":
        lines.append(f"{letter}_ptr += {plan.offset(letter).removesuffix(' + ')}")
    return lines


def _starts(plan: Plan) -> list[str]:
    acc = "acc = tl.zeros((BLOCK_M, BLOCK_V), tl.float32)"
    if plan.op.kind == "plain":
        return ["", acc]
    return [
        "",
        f"highest = tl.full((BLOCK_M, 1), {MINUS_INFINITY}, tl.float32)",
        "total = tl.zeros((BLOCK_M, 1), tl.float32)",
        acc,
    ]


def _end(plan: Plan) -> str:
    """Behind the diagonal a causal mask leaves nothing."""
    return "tl.minimum(n_columns, (tile + 1) * BLOCK_M)" if plan.is_causal else "n_columns"


class _Steps:
    """Writes one block of k and v: scores, the steps on them, weights, the sum of v."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.names: dict[Value, str] = {plan.op.scores: "scores"}
        self.before: list[str] = []  # what is the same for every block

    def lines(self) -> list[str]:
        """Write the body of the loop."""
        plan, op = self.plan, self.plan.op
        note = ["# three TF32 products: as exact as float32"] if plan.precision else []
        lines = [
            "column = (start + tl.arange(0, BLOCK_N)).to(tl.int64)[None, :]",
            "column_inside = column < n_columns",
            "k_inside = column_inside & (d[:, None] < depth)",
            "k = tl.load(k_ptr + column * k_row_stride + d[:, None], mask=k_inside, other=0.0)",
            *note,
            f"scores = tl.dot(q, k{plan.precision})",
        ]
        for step in op.steps:
            lines += self._step(step)
        argument = self.names[op.argument]
        lines += _weights(argument) if op.kind != "plain" else [f"weights = tl.where(column_inside, {argument}, 0.0)"]
        half = "" if op.q.dtype.itemsize == 4 else f".to({TYPES[op.v.dtype]})"
        acc = "acc" if op.kind == "plain" else "acc * shrink"
        return [
            *lines,
            "place = (start + tl.arange(0, BLOCK_N)).to(tl.int64)[:, None]",
            "v_inside = (place < n_columns) & (v_d < v_depth)",
            "v = tl.load(v_ptr + place * v_row_stride + v_d, mask=v_inside, other=0.0)",
            f"acc = tl.dot(weights{half}, v, {acc}{plan.precision})",
        ]

    def _step(self, step: Pointwise) -> list[str]:
        lines: list[str] = []
        for value in step.inputs:
            if value not in self.names:
                line, moves = self._load(value)
                (lines if moves else self.before).append(line)
        indices = {2: "row", 1: "column"} | {2 + at: name for at, (name, _) in enumerate(self.plan.batch[::-1], 1)}
        names = self.plan.signature
        text = Writer(self.names, names.scalars, indices, measures=names.measures).write(step.expr)
        self.names[step.out] = names.names.unused(step.label.strip("_"))
        return [*lines, f"{self.names[step.out]} = {text}"]

    def _load(self, value: Value) -> tuple[str, bool]:
        """Write the load of an operand beside the scores; tell whether it differs from block to block."""
        plan = self.plan
        name = self.names[value] = plan.beside[value]
        *_, has_row, has_column = plan.presence(value)
        where = plan.offset(name, value)
        where += f"row * {name}_row_stride + " if has_row else ""
        where += f"column * {name}_column_stride + " if has_column else ""
        masks = [mask for mask, has in (("row_inside", has_row), ("column_inside", has_column)) if has]
        return f"{name} = {loaded(name, where.removesuffix(' + '), ' & '.join(masks), value.dtype)}", has_column


def _weights(argument: str) -> list[str]:
    """Weigh a block against the highest score so far, and what was added up before against it too."""
    return [
        f"masked = tl.where(column_inside, {argument}, {MINUS_INFINITY})",
        "new_highest = tl.maximum(highest, tl.max(masked, axis=1, keep_dims=True))",
        "# rows that have seen nothing hold -inf, and -inf - -inf would be NaN",
        f"shift = tl.where(new_highest == {MINUS_INFINITY}, 0.0, new_highest)",
        "weights = tl.exp(masked - shift)",
        "shrink = tl.exp(highest - shift)",
        "total = total * shrink + tl.sum(weights, axis=1, keep_dims=True)",
        "highest = new_highest",
    ]


def _results(plan: Plan) -> list[str]:
    where = f"({'matrix * n_rows + ' if plan.batch else ''}row) * v_depth + v_d".replace("(row)", "row")
    value = {
        "plain": "acc",
        "softmax": "acc / total",
        "safe_softmax": "tl.where(total == 0.0, 0.0, acc / total)",
    }[plan.op.kind]
    note = ["# a row without any score is zeros"] if plan.op.kind == "safe_softmax" else []
    name = plan.result
    return [*note, f"{name} = {value}", f"tl.store({name}_ptr + {where}, {name}, mask=row_inside & (v_d < v_depth))"]
