"""Triton's interpreter after our repairs: what a kernel computes here is what the language says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.verifier.conftest import Judge
from verifier.problem import Problem

HEAD = """
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice
"""


def problem(forward: str, inputs: str) -> Problem:
    """A module of one line, with example inputs."""
    source = f"""
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return {forward}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
    return Problem(source, "Model", ("x",))


def kernel(body: str, launch: str = "(1,)", out: str = "torch.empty_like(x)", before: str = "", call: str = "") -> str:
    """A kernel over one block of 64 with `body`, which loads from x_ptr and stores to o_ptr."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"""{HEAD}
{before}
@triton.jit
def compute(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    mask = at < n
{lines}


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = {out}
        compute[{launch}](x, out, x.numel(), {call or "BLOCK=max(16, triton.next_power_of_2(x.numel()))"})
        return out
"""


LOAD = "x = tl.load(x_ptr + at, mask=mask, other=0.0)\n"
STORE = "\ntl.store(o_ptr + at, y, mask=mask)"
BF16 = "torch.randn(40).bfloat16()"
RIGHT = {
    "bfloat16 arithmetic": (problem("x * x + x", BF16), kernel(LOAD + "y = x * x + x" + STORE)),
    "bfloat16 negation": (problem("torch.relu(-x)", BF16), kernel(LOAD + "y = tl.maximum(-x, 0.0)" + STORE)),
    "bfloat16 comparison": (problem("x.abs()", BF16), kernel(LOAD + "y = tl.where(x > 0, x, -x)" + STORE)),
    "bfloat16 from integers": (
        problem("x.bfloat16() * 2", "torch.randint(0, 300, (40,))"),
        kernel("x = tl.load(x_ptr + at, mask=mask, other=0)\ny = x.to(tl.bfloat16) * 2.0" + STORE,
               out="torch.empty(x.shape, dtype=torch.bfloat16)"),
    ),
    "bfloat16 reduction": (
        problem("x.float().sum(0, keepdim=True)", BF16),
        kernel(LOAD + "tl.store(o_ptr, tl.sum(x.to(tl.float32), 0))", out="torch.empty(1)"),
    ),
    "bfloat16 product": (
        problem("(x @ x).float()", "torch.randn(16, 16).bfloat16()"),
        kernel("""
r = tl.arange(0, 16)
x = tl.load(x_ptr + r[:, None] * 16 + r[None, :])
tl.store(o_ptr + r[:, None] * 16 + r[None, :], tl.dot(x, x).to(tl.bfloat16).to(tl.float32))""",
               out="torch.empty(16, 16)").replace("x = x.contiguous()", "assert x.shape == (16, 16)"),
    ),
    "bfloat16 atomics": (
        problem("torch.dot(x.float(), torch.ones(40)).reshape(1).bfloat16()", "torch.ones(40).bfloat16()"),
        kernel(LOAD + "tl.atomic_add(o_ptr + at * 0, x, mask=mask)", out="torch.zeros(1, dtype=torch.bfloat16)"),
    ),
    "libdevice": (
        problem("torch.tanh(x) + torch.erf(x) + torch.log1p(x.abs())", "torch.randn(40)"),
        kernel(LOAD + "y = libdevice.tanh(x) + libdevice.erf(x) + libdevice.log1p(tl.abs(x))" + STORE),
    ),
    "several configurations": (
        problem("x * 2", "torch.randn(40)"),
        kernel(
            "at += tl.program_id(0) * BLOCK\nmask = at < n\n" + LOAD + "y = x * 2" + STORE,
            launch="lambda meta: (triton.cdiv(x.numel(), meta['BLOCK']),)",
            before="@triton.autotune(configs=[triton.Config({'BLOCK': 16}), triton.Config({'BLOCK': 64})], key=['n'])",
        ).replace(", BLOCK=max(16, triton.next_power_of_2(x.numel()))", ""),
    ),
    "a docstring that begins a line with def": (
        problem("x * 2", "torch.randn(40)"),
        kernel('"""Doubles.\n\ndef of terms: twice.\n"""\n' + LOAD + "y = x * 2" + STORE),
    ),
    "every precision of a product": (
        problem("x @ x", "torch.randn(16, 16)"),
        kernel("""
r = tl.arange(0, 16)
x = tl.load(x_ptr + r[:, None] * 16 + r[None, :])
y = tl.dot(x, x, input_precision="bf16x6")
tl.store(o_ptr + r[:, None] * 16 + r[None, :], y)""").replace("x = x.contiguous()", "assert x.shape == (16, 16)"),
    ),
    "a loop over a run-time size": (
        problem("x.sum().reshape(1)", "torch.randn(48)"),
        kernel("""
total = tl.zeros((16,), tl.float32)
for start in range(0, n, 16):
    i = start + tl.arange(0, 16)
    total += tl.load(x_ptr + i, mask=i < n, other=0.0)
tl.store(o_ptr, tl.sum(total, 0))""", out="x.new_empty(1)"),
    ),
    "a scan": (problem("x.cumsum(0)", "torch.randn(40)"), kernel(LOAD + "y = tl.cumsum(x, 0)" + STORE)),
    "a sort": (
        problem("x.sort(descending=True).values", "torch.randn(64)"),
        kernel(LOAD.replace("0.0", 'float("-inf")') + "y = tl.sort(x, descending=True)" + STORE),
    ),
    "a reduction by a function of its own": (
        problem("x.reshape(8, 8).amax(1)", "torch.randn(64)"),
        kernel("""
x = tl.load(x_ptr + tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :])
kept = tl.reduce(x, 1, larger, keep_dims=True)
whole = tl.reduce(x, None, larger)
tl.store(o_ptr + tl.arange(0, 8)[:, None], kept + 0.0 * whole)""", out="x.new_empty(8)",
               before="@triton.jit\ndef larger(x, y):\n    return tl.where(y > x, y, x)\n\n"),
    ),
    "a scan of pairs by a function of its own": (
        problem("x.cummax(0).indices", "torch.randn(40)"),
        kernel(LOAD + "y, place = tl.associative_scan((x, at), 0, later)\n"
               "tl.store(o_ptr + at, place, mask=mask)", out="torch.empty(x.shape, dtype=torch.int64)",
               before="@triton.jit\ndef later(x, x_at, y, y_at):\n    takes = y >= x\n"
                      "    return tl.where(takes, y, x), tl.where(takes, y_at, x_at)\n\n"),
    ),
    "device names of a GPU": (
        problem("x * 2", "torch.randn(40)"),
        kernel(LOAD + "y = x * 2" + STORE, out="torch.empty(x.shape, device='cuda')").replace(
            "x = x.contiguous()", "assert x.is_cuda\n        x = x.cuda()"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", RIGHT)
def test_right_kernels_pass(judge: Judge, what: str) -> None:
    """A right kernel is not failed for a fault of the interpreter."""
    verdict = judge(*RIGHT[what])
    assert verdict.outcome == "pass", (verdict.code, verdict.message, verdict.trace[-800:])


@pytest.mark.parametrize("what", RIGHT)
def test_the_same_kernels_can_fail(judge: Judge, what: str) -> None:
    """The same kernel against another module fails: passing means something."""
    right, text = RIGHT[what]
    other = replace(right, source=right.source.replace("        return ", "        return 1.0625 * "))
    assert judge(other, text).outcome == "fail"


def test_what_only_a_gpu_can_run_is_not_judged(judge: Judge) -> None:
    """Inline assembly is answered with cannot_verify, never blamed on the kernel."""
    body = LOAD + 'y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], tl.float32, True, 1)' + STORE
    verdict = judge(problem("x * 1", "torch.randn(40)"), kernel(body))
    assert verdict.outcome == "cannot_verify" and "GPU" in verdict.message


def test_a_product_that_a_gpu_rounds_is_a_warning(judge: Judge) -> None:
    """The default precision of tl.dot is TF32 on a GPU and exact here: said, with the line."""
    right, text = RIGHT["every precision of a product"]
    verdict = judge(right, text.replace(', input_precision="bf16x6"', ""))
    assert verdict.passed and any("TF32" in warning and "line 15" in warning for warning in verdict.warnings)


def test_order_of_programs_matters_is_a_race(judge: Judge) -> None:
    """A carry from one program to the next is found."""
    body = "i = tl.program_id(0)\nc = tl.load(o_ptr + i)\ntl.store(o_ptr + i + 1, c + tl.load(x_ptr + i))"
    text = kernel(body, launch="(x.numel(),)", out="x.new_zeros(x.numel() + 1)").replace("return out", "return out[1:]")
    verdict = judge(problem("x.cumsum(0)", "torch.randn(8)"), text)
    assert (verdict.outcome, verdict.code) == ("fail", "race")


def test_a_counter_orders_programs(judge: Judge) -> None:
    """Partial sums that the last program collects, as an atomic counter tells it to, are no race."""
    body = """
i = tl.program_id(0)
tl.store(o_ptr + 2 + i, tl.load(x_ptr + i))
done = tl.atomic_add(o_ptr + 1, 1.0)
if done == n - 1:
    tl.store(o_ptr, tl.sum(tl.load(o_ptr + 2 + at, mask=mask, other=0.0), 0))"""
    text = kernel(body, launch="(x.numel(),)", out="x.new_zeros(x.numel() + 2)").replace("return out", "return out[:1]")
    verdict = judge(problem("x.sum().reshape(1)", "torch.randn(8)"), text)
    assert verdict.outcome == "pass", (verdict.code, verdict.message)
