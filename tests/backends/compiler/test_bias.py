"""The bias of a convolution in the library: added by the next kernel, where that is one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from backends.compiler.convert import convert
from tests.backends.compiler.written import source, unbroken

IMAGES = (2, 6, 9, 8)
LAYERS = {
    "nn.Conv1d(6, 4, 3, 2, 1)": (2, 6, 9),
    "nn.Conv2d(6, 8, (3, 1), padding='same', groups=2)": IMAGES,
    "nn.Conv3d(6, 4, 2, dilation=2)": (1, 6, 5, 4, 6),
    "nn.ConvTranspose1d(6, 4, 3, 2, 1, 1)": (2, 6, 9),
    "nn.ConvTranspose2d(6, 4, 3, 2, 1, output_padding=1, groups=2, dilation=2)": IMAGES,
}
"""A layer → what it is given; one in three dimensions, transposed, is a kernel itself."""
CHECK = """
import json, sys, torch
from backends.compiler.schedule import Schedule
from tests.backends.compiler.outcome import judge
from tests.backends.compiler.sweep import repair_interpreter
repair_interpreter()
for text, shape in json.load(sys.stdin):
    print(judge(text, (torch.randn(shape),), schedule=Schedule()))
"""


def problem(layer: str, forward: str = "return torch.relu(self.conv(x0)) * 2", shape: tuple[int, ...] = IMAGES) -> str:
    return source(forward, shape, init=f"self.conv = {layer}")


def usual(text: str) -> str:
    """Write the usual file of a problem."""
    with tempfile.TemporaryDirectory() as folder:
        return "".join(convert(text, "Model", Path(folder)))


def test_the_next_kernel_adds_it() -> None:
    """PyTorch is called without, and the header says where it went."""
    text = usual(problem("nn.Conv2d(6, 4, 3)"))
    settings = ", ".join(f"self.conv.{name}" for name in ("stride", "padding", "dilation", "groups"))
    assert f"F.conv2d(x0, self.conv.weight, None, {settings})" in unbroken(text)
    assert "bias_relu_mul(conv2d, self.conv.bias[:, None, None])" in text
    assert "its bias is added by the next kernel" in " ".join(text.split())


@pytest.mark.parametrize(
    "text",
    [
        problem("nn.Conv2d(6, 4, 3, bias=False)"),
        problem("nn.Conv2d(6, 4, 3)", "y = self.conv(x0)\nreturn y, torch.relu(y)"),
        problem("nn.Conv2d(6, 4, 3)", "return F.max_pool2d(self.conv(x0), 2)"),
        problem("nn.utils.spectral_norm(nn.Conv2d(6, 4, 3))"),
    ],
    ids=["none", "returned", "pooled", "hooks"],
)
def test_otherwise_the_layer_is_called(text: str) -> None:
    """Without a bias, where others than kernels read the result, and where a call does more than convolve."""
    assert "self.conv(x0)" in usual(text)


def test_it_is_right() -> None:
    """Every kind of layer, with strides, groups and dilation."""
    problems = [(problem(layer, shape=shape), shape) for layer, shape in LAYERS.items()]
    assert all("F.conv" in usual(text) for text, _ in problems)
    done = subprocess.run(
        [sys.executable, "-c", CHECK], input=json.dumps(problems), capture_output=True, text=True, timeout=100,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert done.stdout.splitlines() == ["Outcome(kind='right', detail='')"] * len(problems), done.stdout + done.stderr
