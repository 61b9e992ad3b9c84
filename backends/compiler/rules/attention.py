"""Scaled dot product attention: scores, scale and mask, softmax, and the product with v, in one kernel."""

from __future__ import annotations

from typing import Any

from backends.compiler.attend import WIDEST
from backends.compiler.build import Builder
from backends.compiler.expression import Expr, compute_dtype, where
from backends.compiler.indexed import measure
from backends.compiler.ir import Size, Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.matmul import product
from backends.compiler.rules.operand import number
from backends.compiler.rules.reduction import read
from backends.compiler.rules.softmax import shifted_exp_sum

SMALLEST = 16
"""Scores a matrix below which a program would have next to nothing to do."""


@rule("scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    builder: Builder,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None,
    dropout_p: Any,
    is_causal: bool,
    scale: Any,
    enable_gqa: bool,
) -> Value:
    if number(builder, dropout_p):
        raise Declined("random numbers keep PyTorch's order")
    if min(len(query.shape), len(key.shape), len(value.shape)) < 2 or 0 in (*query.hints, *key.hints, *value.hints):
        raise Declined("attention of vectors or of nothing")
    if query.shape[-2].hint * key.shape[-2].hint < SMALLEST:
        raise Declined("so few scores that a tile of them would be mostly empty")
    heads = query.shape[-3:-2]
    is_grouped = enable_gqa and len(query.shape) > 2 and key.shape[-3].hint != heads[0].hint
    if is_grouped:
        query, attn_mask = _grouped(builder, query, key), _grouped_mask(builder, attn_mask, key)
        key, value = (builder.unsqueeze(shared, len(shared.shape) - 2) for shared in (key, value))
    out = _attend(builder, query, key, value, attn_mask, is_causal, scale)
    rank = len(out.shape)
    return builder.flatten(out, rank - 4, rank - 3, heads[0]) if is_grouped else out


def _grouped(builder: Builder, x: Value, key: Value) -> Value:
    """Put the heads that share one of k's beside each other: [..., heads, m, d] → [..., k's heads, group, m, d]."""
    shared = key.shape[-3]
    group = Size(x.shape[-3].hint // shared.hint)
    return builder.unflatten(x, len(x.shape) - 3, (shared, group), f"({builder.size_text(shared)}, -1)")


def _grouped_mask(builder: Builder, mask: Value | None, key: Value) -> Value | None:
    if mask is None or len(mask.shape) < 3:
        return mask
    return builder.unsqueeze(mask, len(mask.shape) - 2) if mask.shape[-3].hint == 1 else _grouped(builder, mask, key)


def _attend(builder: Builder, q: Value, k: Value, v: Value, mask: Value | None, is_causal: bool, scale: Any) -> Value:
    dtype = compute_dtype(q.dtype)
    factor = builder.element(scale, dtype) if scale is not None else _usual_scale(q)
    scores = product(builder, "scores", q, k, b_is_nk=True)
    element = _masked(builder, read(builder, scores) * factor, scores, mask, is_causal)
    scaled = builder.pointwise("scaled", element, dtype)
    kind = "softmax" if mask is None else "safe_softmax"
    whole = builder.attention("scaled_dot_product_attention", v, scores, scaled, kind)
    if whole is not None:
        return whole
    if mask is not None:
        raise Declined(f"a mask on heads wider than {WIDEST[v.dtype]}")
    q = builder.pointwise("scaled", read(builder, q) * factor, q.dtype)
    scores = product(builder, "scores", q, k, b_is_nk=True)
    argument = builder.pointwise("scores", _masked(builder, read(builder, scores), scores, None, is_causal), q.dtype)
    _, numerator, summed = shifted_exp_sum(builder, argument, len(scores.shape) - 1)
    weights = builder.pointwise("softmax", read(builder, numerator) / read(builder, summed), q.dtype)
    return product(builder, "matmul", weights, v)


def _usual_scale(q: Value) -> Expr:
    """1 / sqrt(d), which the launcher reads off q: another build may have other heads."""
    last = len(q.shape) - 1
    return measure("{0} ** -0.5", q.shape[last].hint ** -0.5, "scale", (q, last), dtype=compute_dtype(q.dtype))


def _masked(builder: Builder, x: Expr, scores: Value, mask: Value | None, is_causal: bool) -> Expr:
    """Leave out what a row may not see."""
    if mask is not None and mask.dtype.is_floating_point:
        return x + builder.element(mask, x.dtype)
    if mask is not None:
        return where(builder.element(mask, mask.dtype), x, float("-inf"))
    if is_causal:
        rank = len(scores.shape)
        return where(builder.index(scores, rank - 1) <= builder.index(scores, rank - 2), x, float("-inf"))
    return x
