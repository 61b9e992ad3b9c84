"""A layer that stays in PyTorch stays one call, and of what it returns the file takes the part that is used."""

from __future__ import annotations

import pytest

from tests.backends.compiler.written import source, triton, unbroken


@pytest.mark.parametrize(
    ("layer", "forward", "call"),
    [
        ("nn.GRU(6, 8)", "y, _ = self.g(x0)\nreturn torch.relu(y)", "self.g(x0)[0]"),
        ("nn.GRU(6, 8)", "_, h = self.g(x0)\nreturn torch.relu(h)", "self.g(x0)[1]"),
        ("nn.LSTM(6, 8)", "y, _ = self.g(x0)\nreturn torch.relu(y[-1])", "self.g(x0)[0]"),
        ("nn.LSTM(6, 8)", "_, (h, c) = self.g(x0)\nreturn torch.relu(c)", "self.g(x0)[1][1]"),
        ("nn.GRU(6, 8)", "y, _ = self.g(x0, x1)\nreturn torch.relu(y)", "self.g(x0, x1)[0]"),
        ("nn.LSTM(6, 8)", "z, _ = self.g(x0, (x1, x1 * 2))\nreturn torch.relu(z)", "self.g(x0, (x1, y))[0]"),
    ],
)
def test_the_part_that_is_used(layer: str, forward: str, call: str) -> None:
    """A recurrent layer returns its outputs and its last states, an LSTM's as a pair of their own."""
    assert call in triton(source(forward, (7, 3, 6), (1, 3, 8), init=f"self.g = {layer}"))


def test_a_cell_s_new_state() -> None:
    """LSTMCell returns the pair itself."""
    text = triton(source("h, _ = self.g(x0)\nreturn torch.relu(h) * 2", (7, 6), init="self.g = nn.LSTMCell(6, 8)"))
    assert "self.g(x0)[0]" in text


def test_a_long_sequence_is_one_operator() -> None:
    """A recurrent layer is captured without being run through: a step at a time this would take minutes."""
    text = triton(source("y, _ = self.g(x0)\nreturn torch.relu(y)", (5000, 3, 6), init="self.g = nn.GRU(6, 8, 4)"))
    assert "self.g(x0)[0]" in text and len(text.splitlines()) < 100


def test_a_length_of_the_module_s_own_is_named() -> None:
    """A call that stays takes another build's lengths: what is drawn has the shape that this build's has."""
    problem = source(
        "h = torch.randn(self.layers, x0.shape[1], self.width)\ny, _ = self.g(x0, h)\nreturn torch.relu(y)",
        (7, 3, 6),
        init="self.layers, self.width = 2, 8\nself.g = nn.GRU(6, 8, 2)",
    )
    assert "torch.randn([self.layers, x0.shape[1], self.width], device=x0.device)" in unbroken(triton(problem))
