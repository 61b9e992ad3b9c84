"""A small kernel goes through what a candidate will: whatever is loaded at its first use is loaded by then.

CUDA loads each of PyTorch's kernels when it is first called, Python imports, Triton's compiler sets itself up: on a GPU
that is more than half of a short verification.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from verifier.candidate import KERNEL_FILE, Session
from verifier.cases import Case
from verifier.launches import Trace

PROBLEM = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(64))

    def forward(self, x):
        return x * self.weight + 1


def get_inputs():
    return [torch.randn(8, 64)]


def get_init_inputs():
    return []
"""

KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, weight_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    weight = tl.load(weight_ptr + at % 64, mask=inside, other=0.0)
    tl.store(y_ptr + at, x * weight + 1, mask=inside)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(64))

    def forward(self, x):
        y = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.numel(), 256),)](x, self.weight, y, x.numel(), BLOCK=256)
        return y
"""


def rehearse(device: str, trace: Trace) -> None:
    """Load a kernel in this process, which is not yet contained, and call it in all the ways there are."""
    with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
        session = Session(device, folder, trace, contained=False)
        case = asdict(Case(1))
        for request in (
            {"do": "load", "device": device, "kernel": KERNEL, "source": PROBLEM, "seed": 1, "compiled": ""},
            {"do": "state", "seed": 1, "guards": True},
            {"do": "run", "case": case, "races": True, "trace": True},
            {"do": "run", "case": case, "scramble": True},
            {"do": "repeat", "case": case, "times": 1, "seconds": 1.0},
        ):
            answer, _ = session.answer(request)
            if not answer["ok"]:
                raise RuntimeError(f"the rehearsal fails: {answer['message']}")
        sys.modules.pop(Path(KERNEL_FILE).stem)
