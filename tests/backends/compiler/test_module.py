"""The file as a whole: the same text every time, equal kernels once, and texts that people agreed on."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from backends.compiler.naming import chain, class_name
from tests.backends.compiler.examples import EXAMPLES, MORE
from tests.backends.compiler.written import kernels, source, triton

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_text_is_the_one_agreed_on(name: str) -> None:
    """A change of these texts is meant: run `python -m tests.backends.compiler.test_module` and read the difference."""
    assert triton(EXAMPLES[name].text) == (GOLDEN / f"{name}.py.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_text_is_python(name: str) -> None:
    """The file parses, defines ModelNew, and keeps nothing of the user's get_inputs."""
    tree = ast.parse(triton(EXAMPLES[name].text))
    names = [node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    assert names[-1] == "ModelNew" and "get_inputs" not in names


SHOW = """
from backends.compiler.naming import chain, class_name
from tests.backends.compiler.examples import EXAMPLES, MORE
from tests.backends.compiler.written import triton
for example in [*EXAMPLES.values(), *MORE.values()]:
    print(triton(example.text))
"""


def test_two_processes_write_the_same_bytes() -> None:
    """No order of a set, no hash and no address reaches the text."""
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", SHOW],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[3],
        )
        for seed in ("1", "2")
    ]
    first, second = (run.communicate(timeout=110)[0] for run in runs)
    assert first == second and first.count(b"class ModelNew") == len({**EXAMPLES, **MORE})


DATACLASSES = """
from dataclasses import dataclass
import torch


@dataclass
class Batch:
    x: torch.Tensor
    mask: torch.Tensor | None = None


@dataclass
class Found:
    loss: torch.Tensor
    parts: tuple
    extra: torch.Tensor | None = None


class Model(torch.nn.Module):
    def forward(self, batch):
        return Found(loss=batch.x.sigmoid(), parts=(batch.x + 1,))


def get_inputs():
    return [Batch(torch.randn(4, 8))]


def get_init_inputs():
    return []
"""


def test_a_dataclass_comes_in_and_goes_out() -> None:
    """forward takes and returns the user's own dataclasses; the file keeps what it builds."""
    text = triton(DATACLASSES)
    assert "In Triton:  sigmoid, add" in text and "class Found:" in text
    assert "return Found(loss=" in text and "extra=None)" in text


def test_equal_layers_share_one_kernel() -> None:
    """Two Linear and ReLU of one kind are one kernel, called twice."""
    text = triton(
        source(
            "return torch.relu(self.b(torch.relu(self.a(x0))))",
            (4, 16),
            init="self.a = nn.Linear(16, 16)\nself.b = nn.Linear(16, 16)",
        )
    )
    assert len(kernels(text)) == 1
    assert text.count("self.a.weight") == 1 and text.count("self.b.weight") == 1


def test_different_layers_do_not() -> None:
    """Another activation is another kernel."""
    text = triton(
        source(
            "return torch.sigmoid(self.b(torch.relu(self.a(x0))))",
            (4, 16),
            init="self.a = nn.Linear(16, 16)\nself.b = nn.Linear(16, 16)",
        )
    )
    assert len(kernels(text)) == 2


def test_what_stays_in_pytorch_is_said() -> None:
    """The header names the operator that stayed, and why."""
    text = triton(source("return torch.mode(x0 * 2.0, -1)[0] + 1.0", (4, 8)))
    assert "In Triton:  mul, add" in text and "In PyTorch: mode" in text


def test_a_kernel_that_is_the_whole_forward_has_the_class_s_name() -> None:
    """A telling class name beats a list of operations; a name such as Model tells nothing."""
    assert class_name("Model") == class_name("MyModel") == "" and class_name("LayerNorm2d") == "layer_norm2d"
    assert kernels(triton(source("return x0 * torch.sigmoid(x0)", (4, 8)))) == ["sigmoid_mul"]


def test_a_long_chain_is_named_by_its_first_operations_and_its_last() -> None:
    """Four steps are enough of a name."""
    assert chain(["mul", "add", "relu", "clamp", "tanh", "sub"]) == "mul_add_relu_sub"


if __name__ == "__main__":
    for name, example in EXAMPLES.items():
        (GOLDEN / f"{name}.py.txt").write_text(triton(example.text), encoding="utf-8")
