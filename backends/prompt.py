"""A request → what a language model is asked: chat messages for most, one raw text for models tuned on such.

What stays the same comes first, so that a server's prefix cache serves every candidate and every round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backends import Request
from backends.examples import Example, example_for

ROLE = """\
You write Triton kernels. You are given a PyTorch module and answer with one Python file that computes the same \
thing with Triton kernels.

Answer with one fenced ```python block that holds the complete file:
- the imports, the @triton.jit kernels, and `class ModelNew(nn.Module)`
- ModelNew has the constructor, the parameter names and shapes, and the forward signature of the given class, \
so that its state_dict loads

Rules:
- the heavy operations run in your kernels; fuse what can be fused; accumulate in float32
- sizes are read from the tensors at run time, every load and store is masked, and any size is right
- float32 stays exact: a product of float32 matrices needs input_precision="ieee" or "tf32x3"
- offsets that may pass 2**31 are int64; inputs are not changed; the same call gives the same bits
- no test code, no example inputs, no torch.compile, no try/except around a kernel, no fallback to PyTorch

It is then run against PyTorch on several inputs and sizes; only a right answer counts, and among those the fastest."""

LESS_EXACT = 'One rule is lifted: float32 may be as inexact as TF32, so input_precision="tf32" is allowed.'

LIMIT = 24_000
"""Characters of findings that are sent: about 6 k tokens, so that problem and answer keep most of the context."""


def messages(request: Request, facts: Sequence[str] = ()) -> list[Mapping[str, str]]:
    """Return the chat for a model that follows instructions."""
    example = example_for(request.source)
    system = f"{ROLE}\n\nAn example. Given:\n{_fenced(example.problem)}\nyou answer:\n{_fenced(example.kernel)}"
    return [{"role": "system", "content": system}, {"role": "user", "content": _task(request, facts)}]


def raw(source: str, template: str | None = None) -> str:
    """Return a completion prompt as KernelLLM was tuned on: its own template if given, else one of that shape."""
    if template and "{}" in template:
        return template.replace("{}", source, 1)
    example: Example = example_for(source)
    return (
        f"{ROLE}\n\nHere is an example. The given module:\n```\n{example.problem}```\n"
        f"and the answer:\n```\n{example.kernel}```\n\n"
        f"Convert this module:\n```\n{source.strip()}\n```\n"
        "Name the class ModelNew. Write the complete code in one code block and nothing else.\n"
    )


def _task(request: Request, facts: Sequence[str]) -> str:
    """Say what is to be converted: the facts, the module, what the person wants, and what was found so far."""
    parts = ["\n".join(f"- {fact}" for fact in facts)] if facts else []
    parts.append(f"The module to convert is the class `{request.entry}`:\n{_fenced(request.source)}")
    if request.instructions:
        parts.append(f"The person asks: {request.instructions}")
    if request.precision == "fast":
        parts.append(LESS_EXACT)
    if request.feedback:
        parts += ["What was found so far, newest last:", *_newest(request.feedback), "Answer with the complete file."]
    return "\n\n".join(parts)


def _newest(feedback: Sequence[str]) -> list[str]:
    """Keep the newest pieces that fit; of one that alone is too long, its beginning."""
    kept: list[str] = []
    left = LIMIT
    for piece in reversed(feedback):
        if kept and len(piece) > left:
            break
        kept.insert(0, piece if len(piece) <= LIMIT else piece[:LIMIT] + "\n[cut]")
        left -= len(piece)
    return kept


def _fenced(code: str) -> str:
    return f"```python\n{code.strip()}\n```"
