"""Attention as one kernel: where it is found, and where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.compiler.test_fuse import kinds
from tests.backends.compiler.written import kernels, source, triton

VARIANTS = sorted(Path(__file__).parents[1].glob("examples/*_attention.py"))
FACTORS = ((2, 3, 20, 8), (2, 3, 30, 8), (2, 3, 30, 8))


@pytest.mark.parametrize(
    "forward",
    [
        "return torch.softmax(x0 @ x1.mT * 0.3, -1) @ x2",
        "return F.dropout(torch.softmax(x0 @ x1.mT / 3.0, dim=3), 0.0) @ x2",
        "return F.relu(x0 @ x1.mT * 0.3) @ x2",
        "w = torch.matmul(x0, x1.transpose(-2, -1)) + x1.sum((0, 1, 3))\nreturn torch.matmul(torch.softmax(w, -1), x2)",
        "return F.scaled_dot_product_attention(x0, x1, x2, is_causal=True)",
    ],
)
def test_an_attention_is_one_kernel(forward: str) -> None:
    """Scores, steps on them, softmax and the product with v need no memory between them."""
    assert [kind for kind in kinds(source(forward, *FACTORS)) if kind != "reduction"] == ["attention"]


@pytest.mark.parametrize("path", VARIANTS, ids=lambda path: path.stem)
def test_each_variant_is_one_kernel_and_wholly_in_triton(path: Path) -> None:
    """Causal, ALiBi, relative positions, a sliding window, a neighbourhood: bias and mask are read in the walk."""
    written = triton(path.read_text("utf-8"))
    assert kernels(written).count("attention") == 1 and "\nIn PyTorch: nothing\n" in written


@pytest.mark.parametrize(
    "forward",
    [
        "w = torch.softmax(x0 @ x1.mT, -1)\nreturn w @ x2, w",
        "s = x0 @ x1.mT\nreturn torch.softmax(s, -1) @ x2 + s.sum()",
        "return torch.softmax(x0 @ x1.mT, -2) @ x2",
        "s = x0 @ x1.mT\nx0.add_(1.0)\nreturn torch.softmax(s, -1) @ x2",
    ],
)
def test_scores_that_are_read_elsewhere_are_stored(forward: str) -> None:
    """Where weights or scores are returned or read otherwise, or a factor may change between, products stay apart."""
    assert "attention" not in kinds(source(forward, *FACTORS))


def test_two_linear_layers_are_no_attention() -> None:
    """A perceptron's weights are one matrix for every row; its products stay products."""
    layers = "self.a = nn.Linear(16, 64)\nself.b = nn.Linear(64, 16)"
    assert kinds(source("return self.b(F.relu(self.a(x0)))", (4, 16), init=layers)) == ["matmul", "matmul"]


def test_heads_too_wide_for_registers_are_products() -> None:
    """Beyond 128 float32 numbers a head, scores go through memory."""
    text = source("return F.scaled_dot_product_attention(x0, x1, x2)", *[(2, 3, 20, 160)] * 3)
    assert kinds(text) == ["elementwise", "matmul", "reduction", "matmul"]


def test_causal_rows_walk_to_the_diagonal() -> None:
    """What a causal mask hides is not even computed."""
    text = triton(source("return F.scaled_dot_product_attention(x0, x1, x2, is_causal=True)", *[(2, 3, 20, 8)] * 3))
    assert "for start in range(0, tl.minimum(n_columns, (tile + 1) * BLOCK_M), BLOCK_N):" in text


def test_dropout_keeps_an_attention_in_pytorch() -> None:
    """Random numbers must come in PyTorch's order."""
    text = triton(source("return F.scaled_dot_product_attention(x0, x0, x0, dropout_p=0.1) + 1.0", (2, 3, 20, 8)))
    assert "In PyTorch: scaled_dot_product_attention: random numbers keep PyTorch's order" in text


def test_an_attention_layer_that_stays_in_part_is_not_called_with_one_argument() -> None:
    """nn.MultiheadAttention takes q, k and v: its operators are written one by one, and the attention stays."""
    layer = "self.layer = nn.MultiheadAttention(8, 2)"
    text = triton(source("return F.relu(self.layer(x0, x0, x0, need_weights=False)[0])", (2, 5, 8), init=layer))
    assert "self.layer(" not in text[text.index("def forward") :] and "In PyTorch: scaled_dot_product" in text


def test_a_library_layer_s_whole_numbers_stay_numbers() -> None:
    """The third of q, k and v is at place 2, whatever else of the layer happens to be 2."""
    layer = "self.layer = nn.MultiheadAttention(8, 2)"
    text = triton(source("return self.layer(x0, x0, x0, need_weights=True)[0]", (20, 5, 8), init=layer))
    assert "_rows + 2)" in text and "sqrt(self.layer.head_dim)" in text
