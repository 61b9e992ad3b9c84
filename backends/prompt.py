"""A request → what a language model is asked: chat messages for most, one raw text for models tuned on such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backends import Request

ROLE = """\
You write Triton kernels. You are given a PyTorch module and answer with one Python file that computes the same \
thing with Triton kernels.

Answer with one fenced ```python block that holds the complete file:
- the imports, the @triton.jit kernels, and `class ModelNew(nn.Module)`
- ModelNew has the constructor, the parameter names and shapes, and the forward signature of the given class, \
so that its state_dict loads
- the heavy operations run in your kernels; fuse what can be fused; accumulate in float32
- sizes are read from the tensors at run time, every load and store is masked, and any size is right
- no test code, no example inputs, no torch.compile, no fallback to PyTorch"""

EXAMPLE_PROBLEM = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a + b


def get_inputs():
    return [torch.randn(1, 128), torch.randn(1, 128)]


def get_init_inputs():
    return []
"""

EXAMPLE_ANSWER = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    a = tl.load(a_ptr + offsets, mask=mask)
    b = tl.load(b_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, a + b, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty_like(a)
        n_elements = out.numel()
        add_kernel[(triton.cdiv(n_elements, 1024),)](a, b, out, n_elements, BLOCK_SIZE=1024)
        return out
"""

LIMIT = 24_000
"""Characters of feedback that are sent: about 6 k tokens, so that problem and answer keep most of the context."""


def messages(request: Request) -> list[Mapping[str, str]]:
    """Return the chat for a model that follows instructions."""
    system = f"{ROLE}\n\nAn example. Given:\n{_fenced(EXAMPLE_PROBLEM)}\nyou answer:\n{_fenced(EXAMPLE_ANSWER)}"
    task = f"The module to convert is the class `{request.entry}`:\n{_fenced(request.source)}"
    if request.feedback:
        task += "\nWhat was found so far, newest last:\n\n" + "\n\n".join(_newest(request.feedback))
        task += "\n\nAnswer with the complete corrected file."
    return [{"role": "system", "content": system}, {"role": "user", "content": task}]


def raw(source: str, template: str | None = None) -> str:
    """Return a completion prompt as KernelLLM was tuned on: its own template if given, else one of that shape."""
    if template and "{}" in template:
        return template.replace("{}", source, 1)
    return (
        f"{ROLE}\n\nHere is an example. The given module:\n```\n{EXAMPLE_PROBLEM}```\n"
        f"and the answer:\n```\n{EXAMPLE_ANSWER}```\n\n"
        f"Convert this module:\n```\n{source.strip()}\n```\n"
        "Name the class ModelNew. Write the complete code in one code block and nothing else.\n"
    )


def _newest(feedback: Sequence[str]) -> list[str]:
    """Keep the newest pieces that fit."""
    kept: list[str] = []
    left = LIMIT
    for piece in reversed(feedback):
        if kept and len(piece) > left:
            break
        kept.insert(0, piece[-LIMIT:])
        left -= len(piece)
    return kept


def _fenced(code: str) -> str:
    return f"```python\n{code.strip()}\n```"
