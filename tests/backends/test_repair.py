"""Outdated names in a model's answer are mended, named, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import verifier
from backends.repair import repaired
from backends.reply import chunks
from verifier.problem import Problem

INDUCTOR = (Path(__file__).parent / "inductor_answer.txt").read_text(encoding="utf-8")
PROBLEM = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0


def get_inputs():
    return [torch.rand([4, 4, 4, 4])]


def get_init_inputs():
    return [[], {}]
"""
MENDED = [
    "`grid` is no longer in torch._inductor",
    "the raw stream is not asked for",
    "memory is taken on the device in use",
    "launches follow the inputs' device instead of number 0",
    "the class was called ReLUNew",
]


@pytest.mark.slow
def test_what_torch_removed() -> None:
    """The import that such answers begin with fails on every PyTorch we support: that is why it is mended."""
    with pytest.raises(ImportError):
        from torch._inductor.runtime.triton_heuristics import grid  # noqa: F401


def test_an_answer_in_inductors_style_is_mended() -> None:
    """Each mend is told before the file, and the file has none of the old names."""
    stream = list(chunks([INDUCTOR]))
    assert [chunk.text for chunk in stream if chunk.kind == "repaired"] == MENDED
    kernel = next(chunk.text for chunk in stream if chunk.kind == "final")
    assert "triton_heuristics" not in kernel and "_DeviceGuard" not in kernel
    assert kernel.endswith("ModelNew = ReLUNew\n")


@pytest.mark.slow
def test_a_mended_answer_is_verified() -> None:
    """What was outdated and not wrong passes."""
    kernel = next(chunk.text for chunk in chunks([INDUCTOR]) if chunk.kind == "final")
    verdict = verifier.verify(Problem.parse(PROBLEM), kernel, device="cpu", speed=False)
    assert verdict.passed, verdict.message


def test_the_grid_that_stands_in() -> None:
    """x is the last number, and a block that is not named counts as one."""
    code, _ = repaired("from torch._inductor.runtime.triton_heuristics import grid, other\nimport torch\n")
    assert code.startswith("from torch._inductor.runtime.triton_heuristics import other\nimport torch\n")
    scope: dict[str, object] = {"torch": torch}
    exec(code.split("import torch\n", 1)[1], scope)
    grid = scope["grid"]
    assert grid(1000)({"XBLOCK": 128}) == (8,)  # type: ignore[operator]
    assert grid(7, 1000)({"XBLOCK": 128, "YBLOCK": 4}) == (8, 2)  # type: ignore[operator]
    assert grid(3, 7, 1000)({"XBLOCK": 128, "YBLOCK": 4}) == (8, 2, 3)  # type: ignore[operator]


@pytest.mark.parametrize(
    "code",
    [
        "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n",
        "class Model(torch.nn.Module):\n    pass\n",  # nothing of Triton in it: no kernel of ours to name
        "class Broken(:\n",
        "",
    ],
)
def test_what_needs_nothing_stays(code: str) -> None:
    """A file without outdated names is the same text."""
    assert repaired(code) == (code, ())
