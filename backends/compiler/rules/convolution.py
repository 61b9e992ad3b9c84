"""Convolutions and transposed convolutions, over one, two or three spatial dimensions."""

from __future__ import annotations

from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.conv.worth import beats_library, is_worth
from backends.compiler.expression import Scalar
from backends.compiler.host import state_text
from backends.compiler.ir import ONE, PerAxis, Value
from backends.compiler.rules import Declined, rule

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


FASTER = "the library's convolution is faster"
"""Measured on an H200: 1.6 to 4.5 times where tensor cores do the work, except in three dimensions, transposed."""


def left_to_library(builder: Builder, x: Value, weight: Value, groups: int, is_transposed: bool) -> str:
    """Say why a convolution of this class is better left to the library; "" where Triton takes it.

    Depthwise convolutions ran 2.4 to 2.8 times as fast as cuDNN's on an H200, transposed ones in three dimensions
    0.8 to 3.2 times.
    """
    if x.dtype not in DTYPES or x.dtype != weight.dtype:
        return f"a convolution of {x.dtype}: tensor cores take none"
    if any(size.hint == 0 for size in (*x.shape, *weight.shape)):
        return "a convolution of nothing"
    is_depthwise = not is_transposed and groups > 1 and weight.shape[1].hint == 1
    is_volume = is_transposed and len(weight.shape) == 5 and groups == 1
    in_planes = builder.schedule.planes > 0 and is_worth(x, weight, builder.shape, groups, is_transposed)
    is_faster = is_depthwise or is_volume or (in_planes and beats_library(weight, is_transposed))
    return "" if is_faster or builder.schedule.everything else FASTER


@rule("conv1d.default", "conv2d.default", "conv3d.default", "conv1d.padding", "conv2d.padding", "conv3d.padding")
def conv(
    builder: Builder,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
) -> Value:
    return _convolve(builder, input, weight, bias, groups, stride=stride, padding=padding, dilation=dilation)


@rule("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(
    builder: Builder,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: Any,
    dilation: Any,
) -> Value:
    if "output_size" in builder.origin.line:
        raise Declined("an output size that forward asks for")
    return _convolve(
        builder,
        input,
        weight,
        bias,
        groups,
        stride=stride,
        padding=padding,
        dilation=dilation,
        output_padding=output_padding,
    )


def _convolve(builder: Builder, x: Value, weight: Value, bias: Value | None, groups: Any, **settings: Any) -> Value:
    """Convolve a batch; a single sample is a batch of one."""
    rank = len(weight.shape) - 2
    number = int(groups.number if isinstance(groups, Scalar) else groups)
    if reason := left_to_library(builder, x, weight, number, "output_padding" in settings):
        raise Declined(reason)
    is_same = settings["padding"] == "same"
    if isinstance(settings["padding"], str):
        _hold_padding(builder, settings["padding"])
        settings["padding"] = 0
    held = {name: _held(builder, name, value, rank) for name, value in settings.items()}
    is_transposed = "output_padding" in settings
    held.setdefault("output_padding", PerAxis((0,) * rank))
    held["groups"] = _groups(builder, number)
    shape = builder.shape if len(x.shape) == rank + 2 else (ONE, *builder.shape)
    y = builder.convolution(
        f"conv_transpose{rank}d" if is_transposed else f"conv{rank}d",
        shape,
        builder.dtype,
        x=x if len(x.shape) == rank + 2 else builder.unsqueeze(x, 0),
        weight=weight,
        bias=bias,
        is_transposed=is_transposed,
        is_same=is_same,
        **held,
    )
    return y if len(x.shape) == rank + 2 else builder.squeeze(y, [0])


def _layer(builder: Builder) -> torch.nn.Module | None:
    """Return the torch.nn layer that convolves, None for a call of the function."""
    owner = builder.host.module.get_submodule(builder.origin.module)
    return owner if isinstance(owner, torch.nn.modules.conv._ConvNd) else None


def _held(builder: Builder, name: str, value: Any, rank: int) -> PerAxis:
    """Name a setting after the layer's attribute where that has its value, else write the numbers down."""
    given = list(value) if isinstance(value, (list, tuple)) else [value]
    if any(type(number) is not int for number in given):
        raise Declined(f"a {name} that depends on sizes")
    numbers = tuple(given * rank if len(given) == 1 else given)
    layer = _layer(builder)
    if layer is None:
        return PerAxis(numbers)
    if layer.padding_mode != "zeros" and name == "padding":
        return PerAxis(numbers)  # an operation before this one has padded
    if isinstance(layer.padding, str) and name == "padding":
        return PerAxis(numbers)
    if getattr(layer, name, None) != numbers:
        raise Declined(f"a {name} that is not the layer's own")
    return PerAxis(numbers, f"{state_text(builder.origin.module)}.{name}")


def _groups(builder: Builder, number: int) -> PerAxis:
    host = f"{state_text(builder.origin.module)}.groups" if _layer(builder) is not None else ""
    return PerAxis((number,), host)


def _hold_padding(builder: Builder, padding: str) -> None:
    """Refuse a layer of another padding: its sizes are computed otherwise."""
    if _layer(builder) is not None:
        host = f"{state_text(builder.origin.module)}.padding"
        builder.guards[f'{host} != "{padding}"'] = f"written for padding {padding}"
