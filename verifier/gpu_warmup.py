"""Fills a Triton cache once with what every GPU child would otherwise build again: the driver's own C helpers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from verifier.wire import Channel

SEED = "seed"
EXAMPLE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)
        self.norm = nn.LayerNorm(32)

    def forward(self, x):
        return torch.softmax(self.norm(torch.nn.functional.gelu(self.linear(x)) + x * 2), dim=-1)


def get_inputs():
    return [torch.randn(8, 32)]


def get_init_inputs():
    return []
"""


def launch_nothing() -> None:
    """Launch a trivial kernel: the device is opened and Triton's driver loaded."""
    import torch

    from verifier import gpu_warmup_kernel

    values = torch.zeros(32, device="cuda")
    gpu_warmup_kernel.nothing[(1,)](values, 1.0, 32, BLOCK=32)
    torch.cuda.synchronize()


def run_a_reference() -> None:
    """Take a small module through what every reference goes through: CUDA loads each operator at its first use."""
    from verifier.problem import Problem
    from verifier.truth import Reference

    reference = Reference(Problem(EXAMPLE, "Model"), "cuda")
    reference.expected(reference.first_case)


def serve(channel: Channel) -> None:
    """Launch a trivial kernel, and leave the cache behind for children that start later."""
    import triton

    launch_nothing()
    cache = Path(os.environ["TRITON_CACHE_DIR"])
    if cache.is_dir():
        shutil.copytree(cache, cache.parent.parent / SEED, dirs_exist_ok=True)
    channel.send({"triton": triton.__version__})
