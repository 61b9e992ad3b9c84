"""Losses. Each is a formula of one element or of one row, then PyTorch's reduction (0 none, 1 mean, 2 sum)."""

from __future__ import annotations

import math
from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, call, compute_dtype, equal, where
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.activation import relu_of
from backends.compiler.rules.distance import norm_of
from backends.compiler.rules.operand import elements
from backends.compiler.rules.reduction import dims_of, finish, read, total

NONE, MEAN, SUM = 0, 1, 2
UNSIGNED = (torch.uint8, torch.bool)


def reduced(builder: Builder, label: str, element: Expr, reduction: int) -> Value:
    """Apply the loss's reduction to one element's loss."""
    if reduction == NONE:
        return builder.pointwise(label, element)
    losses = builder.pointwise(label, element, compute_dtype(builder.dtype))
    return reduce_all(builder, losses, reduction)


def reduce_all(builder: Builder, losses: Value, reduction: int) -> Value:
    """Average or add every element."""
    dims = dims_of(losses, None)
    kind = "mean" if reduction == MEAN else "sum"
    return finish(builder, builder.reduce(kind, losses, dims, builder.dtype, label=kind), dims, False)


@rule("mse_loss.default")
def mse_loss(builder: Builder, self: Value, target: Value, reduction: int) -> Value:
    x, y = elements(builder, self, target)
    return reduced(builder, "mse_loss", (x - y) * (x - y), reduction)


@rule("l1_loss.default")
def l1_loss(builder: Builder, self: Value, target: Value, reduction: int) -> Value:
    x, y = elements(builder, self, target)
    return reduced(builder, "l1_loss", call("abs", x - y), reduction)


@rule("smooth_l1_loss.default")
def smooth_l1_loss(builder: Builder, self: Value, target: Value, reduction: int, beta: Any) -> Value:
    if beta == 0:
        return l1_loss(builder, self, target, reduction)
    x, y, b = elements(builder, self, target, beta)
    z = call("abs", x - y)
    return reduced(builder, "smooth_l1_loss", where(z < b, 0.5 * z * z / b, z - 0.5 * b), reduction)


@rule("huber_loss.default")
def huber_loss(builder: Builder, self: Value, target: Value, reduction: int, delta: Any) -> Value:
    x, y, d = elements(builder, self, target, delta)
    z = call("abs", x - y)
    return reduced(builder, "huber_loss", where(z <= d, 0.5 * z * z, d * (z - 0.5 * d)), reduction)


@rule("binary_cross_entropy.default")
def binary_cross_entropy(builder: Builder, self: Value, target: Value, weight: Value | None, reduction: int) -> Value:
    p, t = elements(builder, self, target)
    # PyTorch bounds each logarithm at -100, so that a certain wrong answer costs 100 and not infinity
    log_p, log_q = call("log", p), call("log1p", -p)
    loss = (t - 1.0) * where(log_q < -100.0, -100.0, log_q) - t * where(log_p < -100.0, -100.0, log_p)
    return reduced(builder, "binary_cross_entropy", _weighted(builder, loss, weight), reduction)


def _weighted(builder: Builder, loss: Expr, weight: Value | None) -> Expr:
    return loss if weight is None else loss * elements(builder, weight)[0]


@rule("binary_cross_entropy_with_logits.default")
def bce_with_logits(
    builder: Builder, self: Value, target: Value, weight: Value | None, pos_weight: Value | None, reduction: int
) -> Value:
    x, t = elements(builder, self, target)
    softplus_of_negative = relu_of(-x) + call("log1p", call("exp", -call("abs", x)))
    scale = softplus_of_negative
    if pos_weight is not None:
        scale = (1.0 + (elements(builder, pos_weight)[0] - 1.0) * t) * softplus_of_negative
    return reduced(builder, "bce_with_logits", _weighted(builder, (1.0 - t) * x + scale, weight), reduction)


@rule("kl_div.default")
def kl_div(builder: Builder, self: Value, target: Value, reduction: int, log_target: bool) -> Value:
    x, t = elements(builder, self, target)
    if log_target:
        return reduced(builder, "kl_div", call("exp", t) * (t - x), reduction)
    entropy = where(equal(t, 0), 0.0, t * call("log", t))  # x·log(x) is 0 at 0
    return reduced(builder, "kl_div", entropy - t * x, reduction)


def _needs_floats(*operands: Value) -> None:
    """Decline integers where PyTorch computes in them first: an unsigned one wraps around."""
    if not all(operand.dtype.is_floating_point for operand in operands):
        raise Declined("a loss of integers")


@rule("soft_margin_loss.default")
def soft_margin_loss(builder: Builder, self: Value, target: Value, reduction: int) -> Value:
    _needs_floats(self)
    if target.dtype in UNSIGNED:
        raise Declined(f"a target of {target.dtype} wraps around when it is negated")
    x, t = elements(builder, self, target)
    z = -t * x
    return reduced(builder, "soft_margin_loss", relu_of(z) + call("log1p", call("exp", -call("abs", z))), reduction)


@rule("hinge_embedding_loss.default")
def hinge_embedding_loss(builder: Builder, self: Value, target: Value, margin: Any, reduction: int) -> Value:
    x, t, m = elements(builder, self, target, margin)
    loss = where(equal(t, 1), 0.0, relu_of(m - x)) + where(equal(t, -1), 0.0, x)
    return reduced(builder, "hinge_embedding_loss", loss, reduction)


@rule("margin_ranking_loss.default")
def margin_ranking_loss(
    builder: Builder, input1: Value, input2: Value, target: Value, margin: Any, reduction: int
) -> Value:
    _needs_floats(input1, input2)
    if target.dtype in UNSIGNED:
        raise Declined(f"a target of {target.dtype} wraps around when it is negated")
    a, b, t, m = elements(builder, input1, input2, target, margin)
    return reduced(builder, "margin_ranking_loss", relu_of(-t * (a - b) + m), reduction)


@rule("triplet_margin_loss.default")
def triplet_margin_loss(
    builder: Builder,
    anchor: Value,
    positive: Value,
    negative: Value,
    margin: Any,
    p: Any,
    eps: Any,
    swap: bool,
    reduction: int,
) -> Value:
    if len({anchor.hints, positive.hints, negative.hints}) != 1 or not anchor.shape:
        raise Declined("a triplet loss of different shapes")
    near = _distance(builder, anchor, positive, p, eps)
    far = read(builder, _distance(builder, anchor, negative, p, eps))
    if swap:
        other = read(builder, _distance(builder, positive, negative, p, eps))
        far = call("minimum", far, other)
    (m,) = elements(builder, margin)
    return reduced(builder, "triplet_margin_loss", relu_of(m + read(builder, near) - far), reduction)


@rule("pairwise_distance.default")
def pairwise_distance(builder: Builder, x1: Value, x2: Value, p: Any, eps: Any, keepdim: bool) -> Value:
    return _distance(builder, x1, x2, p, eps, keepdim)


def _distance(builder: Builder, a: Value, b: Value, p: Any, eps: Any, keepdim: bool = False) -> Value:
    dtype = compute_dtype(a.dtype)
    gap = builder.pointwise("_gap", read(builder, a) - read(builder, b) + builder.element(eps, dtype), dtype)
    return norm_of(builder, gap, p, [len(gap.shape) - 1], keepdim)


@rule("poisson_nll_loss.default")
def poisson_nll_loss(
    builder: Builder, input: Value, target: Value, log_input: bool, full: bool, eps: Any, reduction: int
) -> Value:
    x, t, small = elements(builder, input, target, eps)
    loss = call("exp", x) - t * x if log_input else x - t * call("log", x + small)
    if full:  # Stirling's formula for log(target!)
        stirling = t * call("log", t) - t + 0.5 * call("log", 2.0 * math.pi * t)
        loss = loss + where(t > 1.0, stirling, 0.0)
    return reduced(builder, "poisson_nll_loss", loss, reduction)


@rule("cosine_embedding_loss.default")
def cosine_embedding_loss(
    builder: Builder, input1: Value, input2: Value, target: Value, margin: Any, reduction: int
) -> Value:
    if input1.dtype != input2.dtype or input1.hints != input2.hints or not input1.dtype.is_floating_point:
        raise Declined("a cosine loss of different shapes or dtypes")
    dtype, last = compute_dtype(input1.dtype), len(input1.shape) - 1
    a, b = read(builder, input1), read(builder, input2)

    def summed(name: str, term: Expr) -> Expr:
        terms = builder.pointwise(f"_{name}_terms", term, dtype)
        return read(builder, finish(builder, total(builder, terms, [last], dtype, f"_{name}"), [last], False))

    dot, one, two = summed("dot", a * b), summed("square1", a * a), summed("square2", b * b)
    cosine = dot / call("sqrt", (one + 1e-12) * (two + 1e-12))
    t, m = elements(builder, target, margin)
    loss = where(equal(t, 1), 1.0 - cosine, where(equal(t, -1), relu_of(cosine - m), 0.0))
    return reduced(builder, "cosine_embedding_loss", loss, reduction)
