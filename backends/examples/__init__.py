"""Worked examples for a model's prompt, one for each class of operators; every kernel here passes our verifier."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Example:
    """A module and the file that a good answer to it is."""

    name: str
    problem: str
    kernel: str


_SIGNS = (
    ("attention", r"attention|softmax[\s\S]*(@|matmul|einsum|bmm)|(@|matmul|einsum|bmm)[\s\S]*softmax|\bqkv?\b"),
    ("pooling", r"conv(?!er)|pool|unfold|interpolate|upsample"),
    ("matmul", r"linear|matmul|\bb?mm\b|einsum|addmm|baddbmm|\w @ \w|bilinear|gru|lstm"),
    ("loss", r"loss|cross_entropy|kl_div|hinge|\bnll"),
    ("softmax", r"softmax|norm|logsumexp"),
    ("reduction", r"\.?(sum|mean|max|min|amax|amin|prod|argmax|argmin|cumsum|cumprod|var|std|all|any)\("),
)
"""What a module's text says about its operators; the first that fits wins, from the heaviest to the lightest."""


def example_for(source: str) -> Example:
    """Choose the example of the same class of operators."""
    code = re.sub(r"#[^\n]*|\"\"\"[\s\S]*?\"\"\"", "", source).lower()
    code = code.partition("def get_inputs")[0]
    return example(next((name for name, sign in _SIGNS if re.search(sign, code)), "elementwise"))


def names() -> list[str]:
    """Return the classes of operators that have an example."""
    return [*(name for name, _ in _SIGNS), "elementwise"]


@cache
def example(name: str) -> Example:
    """Read the example of a class of operators."""
    folder = Path(__file__).parent / name
    problem, kernel = ((folder / file).read_text(encoding="utf-8") for file in ("problem.py", "kernel.py"))
    return Example(name, problem, kernel)
