"""Problems used by several tests, and a short way to load and judge them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from verifier.compare import Expected, compare
from verifier.problem import Problem
from verifier.structure import Finding
from verifier.tree import flatten
from verifier.truth import Reference

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"


def problem(forward: str, inputs: str, init: str = "", arguments: str = "x", constructor: str = "") -> Problem:
    """Write a problem from the expression of its forward and of its inputs."""
    body = f"    def __init__(self, {constructor.partition('|')[0]}):\n        super().__init__()\n"
    body += f"        {constructor.partition('|')[2] or 'pass'}\n\n"
    source = (
        f"{HEAD}class Model(nn.Module):\n{body}    def forward(self, {arguments}):\n        return {forward}\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return [{init}]\n"
    )
    return Problem(source, "Model", tuple(arguments.split(", ")))


SOFTMAX = problem("torch.softmax(x, -1)", "torch.rand(8, 2000)")
LAYER_NORM = problem(
    "F.layer_norm(x, (200,), self.norm.weight, self.norm.bias)",
    "torch.randn(16, 200) + 3000",
    constructor="|self.norm = nn.LayerNorm(200)",
)
LINEAR = problem(
    "torch.relu(self.fc(x))", "torch.randn(37, 53)", "53, 29", constructor="k, n|self.fc = nn.Linear(k, n)"
)


def load(given: Problem, seed: int = 5) -> Reference:
    """Load a problem with a fixed seed."""
    return Reference(given, seed=seed)


def judge(reference: Reference, answer: Callable[..., Any], values: str = "given") -> Finding | None:
    """Judge what `answer(model, *inputs)` returns for the first case."""
    from dataclasses import replace

    from verifier import cases

    case = replace(reference.first_case, values=values)
    args, kwargs = cases.build_inputs(reference.module, case)
    with torch.no_grad():
        outputs = answer(reference.model, *args, **kwargs)
    return compare(reference.expected(case), flatten(outputs))


def expected(reference: Reference) -> Expected:
    """Return what the first case should give."""
    return reference.expected(reference.first_case)
