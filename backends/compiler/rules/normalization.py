"""Layer, RMS, group and instance norm, and batch norm by running statistics or by the batch's own."""

from __future__ import annotations

from typing import Any, TypeVar

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, Scalar, call, compute_dtype
from backends.compiler.ir import ONE, Size, Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.reduction import mean_of, moments, read, variance_of


def affine(builder: Builder, x: Expr, weight: Value | None, bias: Value | None) -> Expr:
    """Scale and shift."""
    if weight is not None:
        x = x * builder.element(weight, x.dtype)
    return x if bias is None else x + builder.element(bias, x.dtype)


def normalized(builder: Builder, x: Value, dims: list[int], eps: Any) -> Expr:
    """(x - mean) / sqrt(variance + eps) over `dims`, biased variance."""
    centered, spread = variance_of(builder, x, dims)
    return read(builder, centered) * read(builder, _inverse_std(builder, spread, eps))


def _inverse_std(builder: Builder, spread: Value, eps: Any) -> Value:
    inverse = 1.0 / call("sqrt", read(builder, spread) + builder.element(eps, spread.dtype))
    return builder.pointwise("_inverse_std", inverse, spread.dtype)


def _needs_elements(x: Value) -> None:
    if not x.dtype.is_floating_point or any(size.hint == 0 for size in x.shape):
        raise Declined("normalisation of integers or of nothing")


@rule("layer_norm.default")
def layer_norm(
    builder: Builder,
    input: Value,
    normalized_shape: list[Any],
    weight: Value | None,
    bias: Value | None,
    eps: Any,
    cudnn_enable: bool,
) -> Value:
    _needs_elements(input)
    dims = list(range(len(input.shape) - len(normalized_shape), len(input.shape)))
    return builder.pointwise("layer_norm", affine(builder, normalized(builder, input, dims, eps), weight, bias))


@rule("rms_norm.default")
def rms_norm(builder: Builder, input: Value, normalized_shape: list[Any], weight: Value | None, eps: Any) -> Value:
    _needs_elements(input)
    dims = list(range(len(input.shape) - len(normalized_shape), len(input.shape)))
    dtype = compute_dtype(input.dtype)
    x = read(builder, input)
    square = builder.pointwise("_squared", x * x, dtype)
    mean_square = mean_of(builder, square, dims, "_mean_square")
    small = torch.finfo(input.dtype).eps if eps is None else eps
    inverse = 1.0 / call("sqrt", read(builder, mean_square) + builder.element(small, dtype))
    scale = builder.pointwise("_inverse_rms", inverse, dtype)
    return builder.pointwise("rms_norm", affine(builder, x * read(builder, scale), weight, None))


@rule("group_norm.default")
def group_norm(
    builder: Builder,
    input: Value,
    num_groups: Any,
    weight: Value | None,
    bias: Value | None,
    eps: Any,
    cudnn_enabled: bool,
) -> Value:
    _needs_elements(input)
    groups = int(num_groups.number if isinstance(num_groups, Scalar) else num_groups)
    text = num_groups.host if isinstance(num_groups, Scalar) else str(num_groups)
    split = (Size(groups), Size(input.shape[1].hint // groups))
    tail = len(input.shape) - 2
    x = builder.unflatten(input, 1, split, f"({text}, -1)")

    def per_channel(state: Value | None) -> Value | None:
        if state is None:
            return None
        ones = ", 1" * tail
        return builder.view(state, (*split, *[ONE] * tail), f"{{0}}.view({text}, -1{ones})")

    dims = list(range(2, len(x.shape)))
    element = affine(builder, normalized(builder, x, dims, eps), per_channel(weight), per_channel(bias))
    return builder.flatten(builder.pointwise("group_norm", element), 1, 2, input.shape[1])


@rule("instance_norm.default")
def instance_norm(
    builder: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    use_input_stats: bool,
    momentum: Any,
    eps: Any,
    cudnn_enabled: bool,
) -> Value:
    _needs_elements(input)
    if not use_input_stats:
        return by_running_statistics(builder, "instance_norm", input, weight, bias, running_mean, running_var, eps)
    dims = list(range(2, len(input.shape)))
    tail, dtype = len(dims), compute_dtype(input.dtype)
    middle, centered, spread = moments(builder, input, dims)
    if running_mean is not None and running_var is not None:
        builder.refuse_evaluation()
        unbiased = builder.pointwise("_unbiased", read(builder, spread) * _bessel(builder, input, dims), dtype)
        for label, state, found in (("_running_mean", running_mean, middle), ("_running_var", running_var, unbiased)):
            over_images = mean_of(builder, found, [0], "_over_images")
            seen = over_channels(builder, state, tail)
            _learn(builder, label, seen, over_images, read(builder, over_images), momentum)
    element = read(builder, centered) * read(builder, _inverse_std(builder, spread, eps))
    weight, bias = over_channels(builder, weight, tail), over_channels(builder, bias, tail)
    return builder.pointwise("instance_norm", affine(builder, element, weight, bias))


State = TypeVar("State", Value, "Value | None")


def over_channels(builder: Builder, state: State, tail: int) -> State:
    """View one number a channel so that it broadcasts over `tail` dimensions behind the channel."""
    if state is None or not tail:
        return state
    text = f"{{0}}[:{', None' * tail}]"
    return builder.view(state, (*state.shape, *[ONE] * tail), text, label="unsqueeze")


@rule("batch_norm.default")
def batch_norm(
    builder: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: Any,
    eps: Any,
    cudnn_enabled: bool,
) -> Value:
    _needs_elements(input)
    if not training:
        return by_running_statistics(builder, "batch_norm", input, weight, bias, running_mean, running_var, eps)
    middle, spread = _batch_statistics(builder, input)
    dtype, tail = compute_dtype(input.dtype), len(input.shape) - 2
    if running_mean is not None and running_var is not None:
        builder.refuse_evaluation()
        unbiased = read(builder, spread) * _bessel(builder, input, [dim for dim in range(tail + 2) if dim != 1])
        learnt = (("_running_mean", running_mean, read(builder, middle)), ("_running_var", running_var, unbiased))
        for name, statistics, new in learnt:
            _learn(builder, name, over_channels(builder, statistics, tail), middle, new, momentum)
    inverse = 1.0 / call("sqrt", read(builder, spread) + builder.element(eps, dtype))
    scale = builder.pointwise(
        "_channel_scale", affine(builder, inverse, over_channels(builder, weight, tail), None), dtype
    )
    element = (read(builder, input) - read(builder, middle)) * read(builder, scale)
    return builder.pointwise("batch_norm", affine(builder, element, None, over_channels(builder, bias, tail)))


def _batch_statistics(builder: Builder, x: Value) -> tuple[Value, Value]:
    """Mean and biased variance of each channel.

    Each image's own come first, in one reading; as all images are of one size, the mean of their variances and
    the variance of their means add up to the whole's.
    """
    behind = [dim for dim in range(2, len(x.shape)) if x.shape[dim].hint != 1]
    if not behind:
        middle, _, spread = moments(builder, x, [0], of="_batch")
        return middle, spread
    of_image, _, within = moments(builder, x, behind, of="_image")
    middle, _, between = moments(builder, of_image, [0], of="_batch")
    mean_within = mean_of(builder, within, [0], "_variance_within")
    whole = read(builder, mean_within) + read(builder, between)
    return middle, builder.pointwise("_variance", whole, compute_dtype(x.dtype))


def _bessel(builder: Builder, x: Value, dims: list[int]) -> Expr:
    """n / (n - 1), which makes a biased variance of n numbers an unbiased one."""
    count = builder.count([x.shape[dim] for dim in dims], compute_dtype(x.dtype))
    return count / (count - 1.0)


def _learn(builder: Builder, label: str, state: Value, like: Value, new: Expr, momentum: Any) -> None:
    """Move running statistics towards new ones, where they lie."""
    if momentum is None:
        raise Declined("a cumulative average of all batches")
    dtype = new.dtype
    share, old = builder.element(momentum, dtype), builder.element(state, dtype)
    builder.assign(state, label, like, (1.0 - share) * old + share * new)


def by_running_statistics(
    builder: Builder,
    label: str,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    middle: Value | None,
    spread: Value | None,
    eps: Any,
) -> Value:
    """Normalise each channel by the mean and variance that were learnt: one formula of one element."""
    if middle is None or spread is None:
        raise Declined("running statistics are missing")
    builder.refuse_training()
    tail, dtype = len(x.shape) - 2, compute_dtype(x.dtype)
    weight, bias = over_channels(builder, weight, tail), over_channels(builder, bias, tail)
    mean, variance = (builder.element(over_channels(builder, state, tail), dtype) for state in (middle, spread))
    element = (read(builder, x) - mean) / call("sqrt", variance + builder.element(eps, dtype))
    return builder.pointwise(label, affine(builder, element, weight, bias))
