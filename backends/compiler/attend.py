"""Finds attention: a product, elementwise steps on its scores, perhaps a softmax, and a product with v.

Such a run becomes one operation, so that the scores need no memory.
"""

from __future__ import annotations

import torch

from backends.compiler.expression import Call, Expr, Ref
from backends.compiler.ir import Attention, Extern, MatMul, Op, Pointwise, Reduce, Value, View, live, root

WIDEST = {torch.float32: 128, torch.float16: 256, torch.bfloat16: 256}
"""Widest head whose factors and sums a program keeps in registers."""


def attended(ops: list[Op], returned: list[Value]) -> list[Op]:
    """Replace every run of operations that is an attention by one."""
    ops = live(ops, returned)
    readers: dict[Value, list[Op]] = {}
    for op in ops:
        for value in op.inputs:
            readers.setdefault(value, []).append(op)
    kept = {root(value) for value in returned}
    found: dict[Op, Attention] = {}
    for op in ops:
        if isinstance(op, MatMul) and (whole := _attention(op, readers, kept)) and not _is_interrupted(ops, whole, op):
            whole.out.op = found[op] = whole
    return live([found.get(op, op) for op in ops], returned)


def attention(label: str, out: Value, product: MatMul, argument: Value, v: Value, kind: str) -> Attention | None:
    """Describe the attention over a product's scores; None where it is none that one kernel can be."""
    steps = steps_between(product.out, argument)
    widest = max(product.a.shape[-1].hint, v.shape[-1].hint)
    is_same_batch = out.hints[:-1] == product.out.hints[:-1]
    if steps is None or product.a.dtype != v.dtype or widest > WIDEST[v.dtype] or not is_same_batch:
        return None
    a, b = product.a, product.b
    return Attention(label, out, product.origin, a, b, v, product.b_is_nk, product.out, steps, argument, kind)


def steps_between(scores: Value, argument: Value) -> list[Pointwise] | None:
    """List the operations from the scores to what the softmax takes; None where one of them is not of an element."""
    steps: list[Pointwise] = []
    known: dict[Value, bool] = {scores: True}

    def depends(value: Value) -> bool:
        """Tell whether a value is made of the scores, and note the operation that makes it."""
        if value not in known:
            op = value.op
            sources = op.inputs if isinstance(op, (Pointwise, View)) else []
            known[value] = sum(map(depends, sources)) > 0  # all of them are asked
            if known[value]:
                steps.append(_step(op, scores))
        return known[value]

    try:
        return steps if depends(argument) else None
    except _OtherShape:
        return None


class _OtherShape(Exception):
    """The scores are seen in another shape on the way."""


def _step(op: Op | None, scores: Value) -> Pointwise:
    if not isinstance(op, Pointwise) or op.elsewhere or op.extents is not None or op.into is not None:
        raise _OtherShape
    if op.out.hints != scores.hints:
        raise _OtherShape
    return op


def _attention(second: MatMul, readers: dict[Value, list[Op]], kept: set[Value]) -> Attention | None:
    softmax = _softmax(second.a, readers, kept)
    argument, own = softmax or (second.a, {second})
    first = _product_behind(argument)
    if second.b_is_nk or first is None or not _is_batched(first, second, is_plain=softmax is None):
        return None
    whole = attention("attention", second.out, first, argument, second.b, "softmax" if softmax else "plain")
    if whole is None:
        return None
    whole.origin = second.origin
    inner, own = [first.out, *(step.out for step in whole.steps)], {*own, *whole.steps}
    is_read = any(reader not in own for value in inner for reader in readers.get(value, []))
    return None if is_read or kept & set(inner) else whole


def _is_batched(first: MatMul, second: MatMul, *, is_plain: bool) -> bool:
    """Without a softmax, two products in a row may be a perceptron: its weights are one matrix for all."""
    return not is_plain or min(len(first.b.shape), len(second.b.shape), len(first.a.shape)) > 2


def _product_behind(value: Value) -> MatMul | None:
    """Find the one product that a value is made of, elementwise."""
    found: set[Op] = set()
    waiting, seen = [value], set()
    while waiting:
        op = waiting.pop().op
        if op in seen:
            continue
        seen.add(op)
        if isinstance(op, MatMul):
            found.add(op)
        elif isinstance(op, Pointwise):
            waiting += [source for source in op.inputs if source.hints == value.hints]
    product = next(iter(found)) if len(found) == 1 else None
    return product if isinstance(product, MatMul) else None


def _softmax(weights: Value, readers: dict[Value, list[Op]], kept: set[Value]) -> tuple[Value, set[Op]] | None:
    """Return what a softmax over the last dimension was taken of, and who of it reads that; nobody else its parts."""
    quotient = _pair(weights, "/")
    if quotient is None:
        return None
    numerator, total = quotient
    shifted = _argument(numerator, "exp")
    gap = _pair(shifted, "-") if shifted is not None else None
    if gap is None or shifted is None or not isinstance(total.op, Reduce) or not isinstance(gap[1].op, Reduce):
        return None
    argument, highest = gap
    last = (len(argument.shape) - 1,)
    is_sum = total.op.kind == "sum" and total.op.source is numerator
    is_shifted = gap[1].op.kind == "max_skipping_nan" and gap[1].op.source is argument
    is_last = total.op.dims == gap[1].op.dims == last
    parts = {weights: 1, numerator: 2, total: 1, shifted: 1, highest: 1}
    alone = all(len(readers.get(part, [])) == count and part not in kept for part, count in parts.items())
    own = {op for op in (highest.op, shifted.op) if op is not None}
    return (argument, own) if is_sum and is_shifted and is_last and alone else None


def _expression(value: Value) -> Expr | None:
    return value.op.expr if isinstance(value.op, Pointwise) else None


def _pair(value: Value, function: str) -> tuple[Value, Value] | None:
    x = _expression(value)
    if not isinstance(x, Call) or x.function != function:
        return None
    left, right = x.arguments
    return (left.value, right.value) if isinstance(left, Ref) and isinstance(right, Ref) else None


def _argument(value: Value, function: str) -> Value | None:
    x = _expression(value)
    if not isinstance(x, Call) or x.function != function or not isinstance(x.arguments[0], Ref):
        return None
    return x.arguments[0].value


def _is_interrupted(ops: list[Op], whole: Attention, second: MatMul) -> bool:
    """Tell whether something is written in place between the products: q might be another one by then."""
    first = next(index for index, op in enumerate(ops) if op.out is whole.scores)
    between = ops[first : ops.index(second)]
    return any(isinstance(op, Extern) and op.is_barrier for op in between)
