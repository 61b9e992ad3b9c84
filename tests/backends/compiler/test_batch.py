"""A module pasted with a batch of one is converted for any batch, where its forward takes any."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from backends.compiler.capture import capture

MODULE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return {result}


def get_inputs():
    return [torch.randn(1, 8, 5), torch.randn({rows}, 5)]


def get_init_inputs():
    return []
"""


def batch_of(result: str, folder: Path, rows: int = 1) -> int | torch.SymInt:
    """Return the batch that the exporter took for the first input."""
    path = folder / "module.py"
    path.write_text(MODULE.format(result=result, rows=rows))
    nodes = capture(path, "Model").program.graph.nodes
    return next(node.meta["val"].shape[0] for node in nodes if node.op == "placeholder")


@pytest.mark.parametrize("result", ["x * 2 + y[:, None]", "(x.sum(1), y.relu())", "x[0] * y.mean() + x"])
def test_one_row_stands_for_any_number(result: str, tmp_path: Path) -> None:
    """Where two rows give twice the rows."""
    assert isinstance(batch_of(result, tmp_path), torch.SymInt)


@pytest.mark.parametrize(
    "result",
    ["x.squeeze(0) * 2", "x.view(8, 5) * 2", "x.reshape(-1) * 2", "x * 2 if len(x) == 1 else x", "x.sum() * y.sum()"],
)
def test_one_row_that_is_meant_stays_one(result: str, tmp_path: Path) -> None:
    """A dimension that is dropped or merged, one that the module asks for, and a result without rows."""
    assert batch_of(result, tmp_path) == 1


def test_one_row_beside_several_stays_one(tmp_path: Path) -> None:
    """It is broadcast."""
    assert batch_of("x * y[0]", tmp_path, rows=3) == 1
