"""A kernel file that decides by where it runs is told from one that does not."""

from __future__ import annotations

import ast

import pytest

from verifier.whereabouts import asks_where_it_runs

ASKS = [
    "triton.knobs.runtime.interpret",
    "os.environ.get('TRITON_INTERPRET')",
    "type(kernel).__name__ == 'InterpretedFunction'",
    "from triton.runtime.interpreter import TensorHandle",
    "if x.device.type == 'cpu':\n    y = x + x",
    "y = launch(x) if torch.cuda.is_available() else x",
]
ASKS_NOT = [
    "if __name__ == '__main__':\n    if torch.cuda.is_available():\n        test()",
    "'docstring about the interpreter'",
    "triton.reinterpret(x, tl.uint8)",
    "torch.nn.functional.interpolate(x)",
    "if not x.is_cuda:\n    y = x",
    "if x.device.type != 'cuda':\n    raise ValueError",
    "assert x.device.type == 'cuda'",
    "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
]


@pytest.mark.parametrize("line", ASKS)
def test_it_asks(line: str) -> None:
    """By the interpreter's names, or by a branch on the device."""
    assert asks_where_it_runs(ast.parse(line))


@pytest.mark.parametrize("line", ASKS_NOT)
def test_it_does_not(line: str) -> None:
    """Guards that raise, the choice of a device, and words that only look like it."""
    assert not asks_where_it_runs(ast.parse(line))
