"""On a real GPU: kernels are compiled and timed there, and one that breaks the device breaks nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backends import Request
from backends.compiler.backend import Builtin
from tests.benchmarks.modules import MODULES
from verifier import open_verifier
from verifier.desk import Verifier
from verifier.problem import Problem
from verifier.verdict import Verdict

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1

def get_inputs():
    return [torch.randn(1000, 1000)]

def get_init_inputs():
    return []
"""

KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_add_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    {body}

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        relu_add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
"""
RIGHT = KERNEL.format(body="tl.store(y_ptr + offsets, tl.maximum(x, 0.0) + 1.0, mask=inside)")
FAR_AWAY = KERNEL.format(body="tl.store(y_ptr + offsets.to(tl.int64) * 1000000007, x, mask=inside)")
ENDLESS = KERNEL.format(
    body="""while tl.atomic_add(y_ptr, 0.0) != 12345.0:
        pass
    tl.store(y_ptr + offsets, x, mask=inside)"""
)


@pytest.fixture(scope="module")
def judge() -> Iterator[Verifier]:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
    verifier = open_verifier()
    yield verifier
    verifier.close()


def judged(judge: Verifier, problem: str, kernel: str, **options: object) -> Verdict:
    *_, verdict = judge.verify(Problem.parse(problem), kernel, **options)
    assert isinstance(verdict, Verdict)
    return verdict


@pytest.mark.parametrize("name", MODULES)
def test_builtin_is_verified_and_timed(judge: Verifier, name: str) -> None:
    """The embedded compiler's kernels pass on the GPU, and both times stand beside the speed-up."""
    problem = Problem.parse(MODULES[name])
    kernel = "".join(chunk.text for chunk in Builtin(judge.spawn).write(Request(problem.source, problem.entry)))
    verdict = judged(judge, MODULES[name], kernel, baseline="eager")
    assert verdict.outcome == "pass", verdict.message
    assert verdict.timing is not None
    assert verdict.timing.kernel_ms > 0 and verdict.timing.eager_ms > 0


def test_an_illegal_address_costs_one_child(judge: Verifier) -> None:
    """A sticky CUDA error fails its candidate; the next one passes."""
    assert judged(judge, PROBLEM, FAR_AWAY, speed=False).outcome == "fail"
    assert judged(judge, PROBLEM, RIGHT, speed=False).outcome == "pass"


@pytest.mark.slow
def test_a_kernel_that_never_ends_is_stopped(judge: Verifier) -> None:
    """An endless kernel is a timeout, and the next candidate passes."""
    verdict = judged(judge, PROBLEM, ENDLESS, speed=False)
    assert (verdict.outcome, verdict.code) == ("fail", "timeout")
    assert judged(judge, PROBLEM, RIGHT, speed=False).outcome == "pass"
