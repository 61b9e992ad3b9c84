"""Convolutions: what joins their kernel, what they read from the layer, and what stays with the library."""

from __future__ import annotations

import math

import pytest

from tests.backends.compiler.written import groups, kernels, source, triton, unbroken


def layer(made: str, forward: str = "return self.conv(x0)", shape: tuple[int, ...] = (2, 4, 9, 11)) -> str:
    """Write a problem with one layer."""
    return source(forward, shape, init=f"self.conv = {made}")


def test_what_is_elementwise_behind_a_convolution_is_in_its_kernel() -> None:
    """Bias, activation, a number a channel and the sum with another tensor cost no trip through memory."""
    text = triton(
        source(
            "return F.gelu(self.conv(x0) * self.scale) + x1",
            (2, 4, 8, 8),
            (2, 6, 8, 8),
            init="self.conv = nn.Conv2d(4, 6, 3, padding=1)\nself.scale = nn.Parameter(torch.ones(6, 1, 1))",
        )
    )
    assert kernels(text) == ["conv2d_mul_gelu_add"]


def test_a_reduction_behind_a_convolution_is_a_kernel_of_its_own() -> None:
    """A softmax over channels reads what the convolution has stored."""
    kinds = [group.kind for group in groups(layer("nn.Conv2d(4, 6, 3)", "return self.conv(x0).relu().softmax(1)"))]
    assert kinds == ["convolution", "reduction"]


def test_layers_that_differ_in_their_settings_share_one_kernel() -> None:
    """Stride, padding and dilation are read from each layer; the text is the same."""
    text = triton(
        source(
            "return self.b(self.a(x0 * 2.0))",
            (2, 4, 9, 9),
            init="self.a = nn.Conv2d(4, 4, 3, padding=1)\nself.b = nn.Conv2d(4, 4, 5, stride=2, dilation=2)",
        )
    )
    assert kernels(text) == ["mul", "conv2d"]
    assert "self.a.stride, self.a.padding, self.a.dilation" in unbroken(text) and "self.b.stride" in text


def test_a_function_s_settings_are_written_down() -> None:
    """Where no layer holds them, the launcher has the numbers."""
    text = triton(source("return F.conv2d(x0, x1, stride=2, padding=(1, 0))", (2, 4, 9, 9), (6, 4, 3, 3)))
    assert "stride, padding, dilation = (2, 2), (1, 0), (1, 1)" in text


@pytest.mark.parametrize(
    ("made", "kernel"),
    [
        ("nn.Conv2d(4, 8, 3, groups=4)", "ROWS"),
        ("nn.Conv2d(4, 8, 3, groups=2)", "tl.dot"),
        ("nn.Conv2d(4, 8, 3)", "tl.dot"),
        ("nn.ConvTranspose2d(4, 8, 3, groups=4)", "tl.dot"),
    ],
)
def test_only_one_input_channel_an_output_channel_is_summed_without_tensor_cores(made: str, kernel: str) -> None:
    """A depthwise convolution has no matrix product in it."""
    text = triton(layer(made))
    assert kernel in text and ("ROWS" in text) != ("tl.dot" in text)


def test_float64_stays_with_the_library() -> None:
    """Tensor cores as they are used here would round it."""
    text = triton(layer("nn.Conv2d(4, 8, 3).double()", "return self.conv(x0.double()) * 2.0"))
    assert "self.conv(" in text and "a convolution of torch.float64" in text


def test_an_output_size_that_forward_asks_for_stays_with_pytorch() -> None:
    """The padding that it needs depends on the input's size; only PyTorch works it out."""
    text = triton(
        source(
            "return self.conv(x0, output_size=(12, 12)) * 2.0",
            (2, 4, 6, 6),
            init="self.conv = nn.ConvTranspose2d(4, 4, 3, stride=2, padding=1)",
        )
    )
    assert kernels(text) == ["mul"]


def test_a_kernel_without_groups_refuses_them() -> None:
    """The constructor may be called with other numbers than the file was written for."""
    assert "written for groups=1" in triton(layer("nn.ConvTranspose2d(4, 4, 3)"))


def test_the_taps_of_all_phases_are_the_kernel_s_taps() -> None:
    """Each tap belongs to exactly the phases that it reaches: first, first + step, ... as the kernel counts them."""
    for stride in range(1, 6):
        for dilation in range(1, 7):
            for size in range(1, 8):
                step = stride // math.gcd(stride, dilation)
                for phase in range(stride):
                    reached = [tap for tap in range(size) if (phase - tap * dilation) % stride == 0]
                    first = next((tap for tap in range(step) if (phase - tap * dilation) % stride == 0), size)
                    count = (size - first + step - 1) // step
                    assert [first + step * turn for turn in range(count)] == reached
