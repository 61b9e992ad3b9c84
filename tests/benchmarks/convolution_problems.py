"""The convolutions that are measured: KernelBench's shapes, in one to three dimensions, depthwise and transposed."""

from __future__ import annotations

from dataclasses import dataclass

from tests.backends.compiler.written import source

TINY = {1: 40, 2: 26, 3: 8}
"""Lengths of a dry run by the number of dimensions: every kernel below fits in."""


@dataclass(frozen=True)
class Layer:
    """A layer of PyTorch's by its name and arguments, the input's shape, and `forward`, where {0} is the result."""

    name: str
    arguments: str
    shape: tuple[int, ...]
    forward: str = "{0}"


PROBLEMS = {
    "2d 3x3, 64 to 128": Layer("Conv2d", "64, 128, 3, bias=False", (8, 64, 512, 1024)),
    "3d 3x5x7, 3 to 64": Layer("Conv3d", "3, 64, (3, 5, 7), bias=False", (16, 3, 64, 64, 64)),
    "transposed 3d 3x3x3, 48 to 48": Layer("ConvTranspose3d", "48, 48, 3, bias=False", (8, 48, 64, 64, 64)),
    "depthwise 3x3": Layer("Conv2d", "64, 64, 3, groups=64, bias=False", (16, 64, 512, 512)),
    "1d 3, 64 to 128": Layer("Conv1d", "64, 128, 3, bias=False", (32, 64, 131072)),
    "2d 3x3 with bias and relu": Layer("Conv2d", "64, 128, 3", (128, 64, 128, 128), "F.relu({0})"),
    "transposed 2d 3x3, 64 to 64": Layer("ConvTranspose2d", "64, 64, 3, bias=False", (8, 64, 1024, 1024)),
    "2d 1x1, 64 to 128": Layer("Conv2d", "64, 128, 1, bias=False", (16, 64, 1024, 1024)),
    "2d 5x7, 64 to 128": Layer("Conv2d", "64, 128, (5, 7), bias=False", (8, 64, 512, 256)),
    "2d 11x11 stride 4, 3 to 96": Layer("Conv2d", "3, 96, 11, stride=4, padding=2", (256, 3, 224, 224)),
    "transposed 3d stride 2, grouped": Layer(
        "ConvTranspose3d", "32, 32, (3, 5, 7), 2, (1, 2, 3), 1, groups=4, bias=False", (8, 32, 12, 24, 48)
    ),
    "3d 3x3x3, 3 to 64": Layer("Conv3d", "3, 64, 3, bias=False", (16, 3, 64, 64, 64)),
    "depthwise 3x7": Layer("Conv2d", "128, 128, (3, 7), groups=128, bias=False", (32, 128, 128, 256)),
    "2d 5x9 dilated, 32 to 64": Layer(
        "Conv2d", "32, 64, (5, 9), padding=(2, 4), dilation=(2, 3), bias=False", (8, 32, 512, 512)
    ),
    "transposed 2d stride 2x3, grouped, dilated": Layer(
        "ConvTranspose2d", "32, 64, (3, 5), (2, 3), (1, 2), groups=4, dilation=(2, 1), bias=False", (16, 32, 128, 256)
    ),
    "1d stride 3 dilated, 64 to 128": Layer("Conv1d", "64, 128, 3, stride=3, dilation=4, bias=False", (64, 64, 524280)),
    "transposed 1d 3, 128 to 128": Layer("ConvTranspose1d", "128, 128, 3, bias=False", (64, 128, 65536)),
    "transposed 3d 3x5x5, 32 to 64": Layer("ConvTranspose3d", "32, 64, (3, 5, 5), bias=False", (16, 32, 64, 64, 64)),
    "2d 3x3, 16 to 128": Layer("Conv2d", "16, 128, 3, bias=False", (16, 16, 1024, 1024)),
    "transposed 3d dilated stride 2, 32 to 64": Layer(
        "ConvTranspose3d", "32, 64, 3, stride=2, padding=1, dilation=2, bias=False", (16, 32, 16, 32, 32)
    ),
    "2d 3x3, 8 to 64": Layer("Conv2d", "8, 64, 3", (128, 8, 256, 256)),
}
"""The most different ones first: the time may not be enough for all."""

CLOSELY = {"2d 3x3, 64 to 128, tiles": "2d 3x3, 64 to 128", "depthwise 3x3, tiles": "depthwise 3x3"}
"""Those of which other tiles are measured, each by the name of what it is."""

TILES: dict[str, list[tuple[int, ...]]] = {
    "conv_tile": [
        (64, 64, 32, 4),
        (128, 32, 32, 4),
        (128, 64, 32, 8),
        (128, 128, 32, 8),
        (256, 32, 16, 8),
        (64, 128, 32, 4),
    ],
    "depthwise_tile": [(rows, width) for rows in (1, 2, 4, 8) for width in (256, 512, 1024)],
}
"""What to choose in place of what a file's own function of this name chooses."""


def problem(layer: Layer, is_tiny: bool) -> str:
    """Write the problem; tiny, it has one sample and short lengths."""
    shape = layer.shape
    if is_tiny:
        shape = (1, shape[1], *(min(length, TINY[len(shape) - 2]) for length in shape[2:]))
    init = f"self.conv = nn.{layer.name}({layer.arguments})"
    text = source(f"return {layer.forward.format('self.conv(x0)')}", shape, init=init)
    return text.replace("torch.rand(", "torch.randn(")
