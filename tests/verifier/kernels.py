"""A small problem with a right kernel, and ways to spoil it: what the verifier's tests are made of."""

from __future__ import annotations

from verifier.problem import Problem

PROBLEM = Problem(
    """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return nn.functional.leaky_relu(x * self.scale, 0.2)


def get_inputs():
    return [torch.randn(5, 37)]


def get_init_inputs():
    return [37]
""",
    "Model",
    ("x",),
)

HEAD = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_leaky_relu(x_ptr, s_ptr, o_ptr, n, width, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    z = tl.load(x_ptr + at, mask=mask, other=0.0) * tl.load(s_ptr + at % width, mask=mask, other=0.0)
    tl.store(o_ptr + at, tl.where(z > 0, z, 0.2 * z), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
"""

FORWARD = """
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        scaled_leaky_relu[(triton.cdiv(x.numel(), 64),)](x, self.scale, out, x.numel(), x.shape[-1], BLOCK=64)
        return out
"""

RIGHT = HEAD + FORWARD


def spoiled(*changes: tuple[str, str]) -> str:
    """Return the right kernel with texts replaced; each must be there."""
    text = RIGHT
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def with_forward(body: str, before: str = "") -> str:
    """Return the right kernel with another forward (`launch(x)` is the right one), and lines before the class."""
    launch = FORWARD.replace("def forward(self, x)", "def launch(self, x)")
    lines = "".join(f"        {line}\n" for line in body.strip("\n").splitlines())
    head = HEAD.replace("\n\nclass ModelNew", f"\n\n{before}\n\nclass ModelNew")
    return head + launch + "\n    def forward(self, x):\n" + lines
