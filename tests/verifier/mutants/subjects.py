"""Right kernels to spoil: what people write by hand for an activation, norms, a softmax, products and attention."""

from __future__ import annotations

from dataclasses import dataclass

from tests.verifier.mutants import rowwise, tiled
from verifier.problem import Problem

_HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl
"""


@dataclass(frozen=True)
class Subject:
    """A problem, and a kernel that is right for it."""

    name: str
    problem: Problem
    kernel: str


def written_by_hand() -> list[Subject]:
    """Return one subject for each text."""
    return [_subject(name, text) for name, text in {**rowwise.TEXTS, **tiled.TEXTS}.items()]


def _subject(name: str, text: str) -> Subject:
    problem, _, kernel = text.partition("\n# ---\n")
    return Subject(name, Problem(_HEAD + problem, "Model"), _HEAD + kernel)
