"""Losses over classes: a row's own class is picked by comparing the column's number with the target."""

from __future__ import annotations

from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, Scalar, binary, call, cast, compute_dtype, equal, where
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.activation import relu_of
from backends.compiler.rules.loss import MEAN, NONE, SUM, reduce_all, reduced
from backends.compiler.rules.normalization import over_channels
from backends.compiler.rules.operand import number
from backends.compiler.rules.reduction import dims_of, finish, read, total
from backends.compiler.rules.softmax import shifted_exp_sum


@rule("nll_loss_nd.default", "nll_loss.default", "nll_loss2d.default")
def nll_loss(
    builder: Builder, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: Any
) -> Value:
    return _pick(builder, self, read(builder, self), target, weight, reduction, ignore_index, "nll_loss")


@rule("cross_entropy_loss.default")
def cross_entropy_loss(
    builder: Builder,
    self: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore_index: Any,
    label_smoothing: Any,
) -> Value:
    smoothing = number(builder, label_smoothing)
    dim = 0 if len(self.shape) == 1 else 1
    shifted, _, summed = shifted_exp_sum(builder, self, dim)
    log_p = read(builder, shifted) - call("log", read(builder, summed))
    if target.dtype.is_floating_point:
        return _probabilities(builder, self, log_p, target, weight, reduction, smoothing)
    return _pick(builder, self, log_p, target, weight, reduction, ignore_index, "cross_entropy", smoothing)


def _probabilities(
    builder: Builder, x: Value, log_p: Expr, target: Value, weight: Value | None, reduction: int, smoothing: float
) -> Value:
    """The target gives every class a share of the row."""
    dim, dtype = (0 if len(x.shape) == 1 else 1), compute_dtype(x.dtype)
    share = builder.element(target, dtype)
    if smoothing:
        share = share * (1.0 - smoothing) + smoothing / _classes(builder, x, dim)
    if weight is not None:
        share = share * builder.element(over_channels(builder, weight, len(x.shape) - 1 - dim), dtype)
    terms = builder.pointwise("_terms", -log_p * share, dtype)
    kept = builder.dtype if reduction == NONE else dtype
    losses = finish(builder, total(builder, terms, [dim], kept, "cross_entropy"), [dim], False)
    return losses if reduction == NONE else reduce_all(builder, losses, reduction if losses.shape else SUM)


def _classes(builder: Builder, x: Value, dim: int) -> Expr:
    """How many classes there are, as a number of the kernel."""
    size = x.shape[dim]
    count = size.hint if size.symbol is None else Scalar(torch.int64, builder.size_text(size), size.hint)
    return builder.element(count, compute_dtype(x.dtype))


def _pick(
    builder: Builder,
    x: Value,
    log_p: Expr,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore: Any,
    label: str,
    smoothing: float = 0.0,
) -> Value:
    if target.dtype != torch.int64 or not x.shape or 0 in x.hints:
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
        weight = over_channels(builder, weight, len(x.shape) - 1 - dim)
        of_class = builder.pointwise("_class_weight", where(chosen, builder.element(weight, dtype), 0.0), dtype)
        weighed = read(builder, builder.reduce("sum", of_class, [dim], dtype, label="_weight"))
        share = where(counted, weighed, 0.0)
    kept = builder.pointwise("_share", share, dtype)
    loss = -log_likelihood * read(builder, kept)
    if smoothing:
        loss = (1.0 - smoothing) * loss + _evenly(builder, x, log_p, weight, dim) * smoothing
    losses = builder.pointwise(
        label,
        where(counted, loss, 0.0),
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


def _evenly(builder: Builder, x: Value, log_p: Expr, weight: Value | None, dim: int) -> Expr:
    """The loss against a target that gives every class the same share."""
    dtype = compute_dtype(x.dtype)
    term = log_p if weight is None else log_p * builder.element(weight, dtype)
    terms = builder.pointwise("_even_terms", -term, dtype)
    return read(builder, builder.reduce("sum", terms, [dim], dtype, label="_even")) / _classes(builder, x, dim)


@rule("multi_margin_loss.default")
def multi_margin_loss(
    builder: Builder, self: Value, target: Value, p: Any, margin: Any, weight: Value | None, reduction: int
) -> Value:
    dim, dtype, power = len(self.shape) - 1, compute_dtype(self.dtype), number(builder, p)
    if dim not in (0, 1) or power not in (1, 2) or len(target.shape) != dim or 0 in self.hints:
        raise Declined("multi_margin_loss of this shape")
    x = read(builder, self)
    chosen = equal(builder.index(self, dim), builder.element(builder.unsqueeze(target, dim), torch.int64))

    def own(label: str, element: Expr) -> Expr:
        picked = builder.pointwise(f"_{label}_picked", where(chosen, element, 0.0), dtype)
        return read(builder, builder.reduce("sum", picked, [dim], dtype, label=f"_{label}"))

    behind = relu_of(builder.element(margin, dtype) - own("own", x) + x)
    gap = read(builder, builder.pointwise("_gap", behind, dtype))
    term = gap if power == 1 else gap * gap
    if weight is not None:
        term = term * own("weight", builder.element(weight, dtype))
    terms = builder.pointwise("_terms", where(chosen, 0.0, term), dtype)
    summed = builder.squeeze(builder.reduce("sum", terms, [dim], dtype, label="_sum"), [dim])
    return reduced(builder, "multi_margin_loss", read(builder, summed) / _classes(builder, self, dim), reduction)
