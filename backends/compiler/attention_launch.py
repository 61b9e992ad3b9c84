"""The launcher of an attention: the operands' layouts, the result, the tiles."""

from __future__ import annotations

from backends.compiler.attention_plan import Plan
from backends.compiler.margin import TAB, function, launch, quoted
from backends.compiler.shapes import measured, shape_checks


def launcher(plan: Plan, name: str) -> str:
    """Write the function that launches an attention's kernel."""
    op, names = plan.op, plan.signature
    q, k, v = (names.operands[value] for value in (op.q, op.k, op.v))
    sizes = [*(size for _, size in plan.batch[1:]), "n_rows", "n_columns", "depth", "v_depth"]
    tensors = ["q", "k", "v", *plan.beside.values(), plan.result]
    moved = {value: named for value, named in plan.beside.items() if named != names.operands[value]}
    lines = [
        *measured(names, names.measures.values()),
        *(f"{named} = {names.operands[value]}" for value, named in moved.items()),
        f"q, k, v = unit_rows({q}), unit_rows({k}{'' if op.k_is_nk else '.mT'}), unit_rows({v})",
        "batch = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])",
        "(n_rows, depth), (n_columns, v_depth) = q.shape[-2:], v.shape[-2:]",
        "expect_shape(k, (*k.shape[:-2], n_columns, depth))",
        *(["shape = (*batch, n_rows, n_columns)"] if plan.beside else []),
        *shape_checks(plan.beside, op.scores.shape, ""),
        *(["q, k, v = (factor.expand(*batch, -1, -1) for factor in (q, k, v))"] if plan.batch else []),
        *(f"{named} = {named}.expand(shape)" for named in plan.beside.values()),
        f"{plan.result} = q.new_empty(*batch, n_rows, v_depth)",
        *(f"{size} = batch[{index}]" for index, (_, size) in enumerate(plan.batch) if index),
        "block_m, block_n, block_d, block_v, warps = attention_tile(",
        f"{TAB}n_rows, depth, v_depth, q.element_size()",
        ")",
        *launch(
            f"{name}_kernel",
            "(triton.cdiv(n_rows, block_m) * math.prod(batch),)",
            [
                [*tensors, *sizes, *plan.numbers],
                *_strides(plan),
                [
                    "BLOCK_M=block_m",
                    "BLOCK_N=block_n",
                    "BLOCK_D=block_d",
                    "BLOCK_V=block_v",
                    "num_warps=warps",
                    "num_stages=2",
                ],
            ],
        ),
        f"return {plan.result}",
    ]
    doc = "Launch over blocks of rows of q, shapes (..., n_rows, depth), k and v with n_columns rows each."
    return function(name, names.parameters, quoted(doc), lines)


def _strides(plan: Plan) -> list[list[str]]:
    """Pass the strides: of q, k and v all but the last, which is 1; of the others those of what they have."""
    whole = len(plan.batch) + 2
    factors = [f"*{letter}.stride()[:-1]" for letter in "qkv"]
    others = []
    for value, name in plan.beside.items():
        has = plan.presence(value)
        kept = [f"{name}.stride({index - whole})" for index, present in enumerate(has) if present]
        others += [f"*{name}.stride()"] if all(has) else kept
    return [factors, others] if others else [factors]
