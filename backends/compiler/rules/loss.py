"""Losses. Each is a formula of one element or of one row, then PyTorch's reduction (0 none, 1 mean, 2 sum)."""

from __future__ import annotations

from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, binary, call, cast, compute_dtype, equal, where
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.activation import relu_of
from backends.compiler.rules.operand import elements, needs_float32
from backends.compiler.rules.reduction import dims_of, finish, norm_of, read, total
from backends.compiler.rules.softmax import shifted_exp_sum

NONE, MEAN, SUM = 0, 1, 2


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
def binary_cross_entropy(
    builder: Builder, self: Value, target: Value, weight: Value | None, reduction: int
) -> Value:
    needs_float32(builder)
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
    needs_float32(builder)
    x, t = elements(builder, self, target)
    softplus_of_negative = relu_of(-x) + call("log1p", call("exp", -call("abs", x)))
    scale = softplus_of_negative
    if pos_weight is not None:
        scale = (1.0 + (elements(builder, pos_weight)[0] - 1.0) * t) * softplus_of_negative
    return reduced(
        builder, "bce_with_logits", _weighted(builder, (1.0 - t) * x + scale, weight), reduction
    )


@rule("kl_div.default")
def kl_div(builder: Builder, self: Value, target: Value, reduction: int, log_target: bool) -> Value:
    needs_float32(builder)
    x, t = elements(builder, self, target)
    if log_target:
        return reduced(builder, "kl_div", call("exp", t) * (t - x), reduction)
    entropy = where(equal(t, 0), 0.0, t * call("log", t))  # x·log(x) is 0 at 0
    return reduced(builder, "kl_div", entropy - t * x, reduction)


@rule("soft_margin_loss.default")
def soft_margin_loss(builder: Builder, self: Value, target: Value, reduction: int) -> Value:
    needs_float32(builder)
    x, t = elements(builder, self, target)
    z = -t * x
    return reduced(
        builder, "soft_margin_loss", relu_of(z) + call("log1p", call("exp", -call("abs", z))), reduction
    )


@rule("hinge_embedding_loss.default")
def hinge_embedding_loss(builder: Builder, self: Value, target: Value, margin: Any, reduction: int) -> Value:
    x, t, m = elements(builder, self, target, margin)
    loss = where(equal(t, 1), 0.0, relu_of(m - x)) + where(equal(t, -1), 0.0, x)
    return reduced(builder, "hinge_embedding_loss", loss, reduction)


@rule("margin_ranking_loss.default")
def margin_ranking_loss(
    builder: Builder, input1: Value, input2: Value, target: Value, margin: Any, reduction: int
) -> Value:
    a, b, t, m = elements(builder, input1, input2, target, margin)
    return reduced(builder, "margin_ranking_loss", relu_of(-t * (a - b) + m), reduction)


@rule("triplet_margin_loss.default")
def triplet_margin_loss(
    builder: Builder, anchor: Value, positive: Value, negative: Value, margin: Any, p: Any, eps: Any, swap: bool,
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


# ---- classes: the row's own class is picked by comparing the column's number with the target ------


@rule("nll_loss_nd.default", "nll_loss.default", "nll_loss2d.default")
def nll_loss(
    builder: Builder, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: Any
) -> Value:
    return _pick(builder, self, read(builder, self), target, weight, reduction, ignore_index, "nll_loss")


@rule("cross_entropy_loss.default")
def cross_entropy_loss(
    builder: Builder, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: Any,
    label_smoothing: float,
) -> Value:
    if label_smoothing != 0:
        raise Declined("label smoothing")
    dim = 0 if len(self.shape) == 1 else 1
    shifted, _, summed = shifted_exp_sum(builder, self, dim)
    log_p = read(builder, shifted) - call("log", read(builder, summed))
    if not target.dtype.is_floating_point:
        return _pick(builder, self, log_p, target, weight, reduction, ignore_index, "cross_entropy")
    if weight is not None:
        raise Declined("class weights with class probabilities")
    dtype = compute_dtype(self.dtype)
    terms = builder.pointwise("_terms", -log_p * builder.element(target, dtype), dtype)
    losses = finish(builder, total(builder, terms, [dim], dtype, "cross_entropy"), [dim], False)
    if reduction == NONE:
        return losses if losses.dtype == builder.dtype else builder.pointwise("_loss", read(builder, losses))
    if reduction == SUM or not losses.shape:
        return reduce_all(builder, losses, SUM)
    if len(losses.shape) > 1:
        raise Declined("the mean over positions of class probabilities")
    return reduce_all(builder, losses, MEAN)


def _pick(
    builder: Builder, x: Value, log_p: Expr, target: Value, weight: Value | None, reduction: int, ignore: Any,
    label: str,
) -> Value:
    if target.dtype != torch.int64 or len(x.shape) not in (1, 2, 3, 4) or any(size.hint == 0 for size in x.shape):
        raise Declined(f"{label} with {target.dtype} targets")
    dim = 0 if len(x.shape) == 1 else 1
    dtype = compute_dtype(x.dtype)
    wanted = builder.unsqueeze(target, dim)
    chosen = equal(builder.index(x, dim), builder.element(wanted, torch.int64))
    picked = builder.pointwise("_picked", where(chosen, log_p, 0.0), dtype)
    log_likelihood = read(builder, builder.reduce("sum", picked, [dim], dtype, label="_log_likelihood"))
    counted = binary("!=", builder.element(wanted, torch.int64), builder.element(ignore, torch.int64), torch.bool)
    share: Expr = cast(counted, dtype)
    if weight is not None:
        tail = len(x.shape) - 1 - dim
        for _ in range(tail):
            weight = builder.unsqueeze(weight, len(weight.shape))
        of_class = builder.pointwise("_class_weight", where(chosen, builder.element(weight, dtype), 0.0), dtype)
        weighed = read(builder, builder.reduce("sum", of_class, [dim], dtype, label="_weight"))
        share = where(counted, weighed, 0.0)
    kept = builder.pointwise("_share", share, dtype)
    losses = builder.pointwise(
        label, where(counted, -log_likelihood * read(builder, kept), 0.0),
        builder.dtype if reduction == NONE else dtype,
    )
    if reduction == NONE:
        return finish(builder, losses, [dim], False)
    dims = dims_of(losses, None)
    summed = builder.reduce("sum", losses, dims, dtype, label="_sum")
    if reduction == MEAN:
        shares = builder.reduce("sum", kept, dims, dtype, label="_count")
        summed = builder.pointwise("mean", read(builder, summed) / read(builder, shares))
    elif summed.dtype != builder.dtype:
        summed = builder.pointwise("sum", read(builder, summed))
    return finish(builder, summed, dims, False)
