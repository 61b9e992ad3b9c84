"""Readings at computed places: what is read where, and what a launcher refuses."""

from __future__ import annotations

import pytest
import torch

from backends.compiler.indexed import Measure, length, plus, times
from backends.compiler.ir import Size, Value
from backends.compiler.through import inserted
from tests.backends.compiler.written import groups, kernels, source, triton, unbroken


def kinds(text: str) -> list[str]:
    return [group.kind for group in groups(text)]


ONE_PASS = {
    "a permuted operand": source("return x0.permute(0, 2, 1) * 2.0 + x1", (2, 4, 6), (2, 6, 4)),
    "two halves": source("return x0[:, :4] * torch.sigmoid(x0[:, 4:])", (3, 8)),
    "pieces": source("a, b = x0.chunk(2, -1)\nreturn a * torch.sigmoid(b)", (3, 8)),
    "a pool and what follows": source("return torch.relu(F.max_pool2d(x0, 3, 2, 1)) + 1.0", (2, 3, 8, 8)),
    "a pool and what comes before": source("return F.max_pool2d(torch.relu(x0), 2)", (2, 3, 8, 8)),
    "padding of an activation": source("return F.pad(torch.sigmoid(x0), (1, 1))", (3, 8)),
    "a join of activations": source("return torch.cat([x0.exp(), torch.relu(x1)], 1) * 2.0", (3, 4), (3, 5)),
    "shuffled channels": source(
        "b, c, t = x0.shape\nreturn x0.view(b, 2, c // 2, t).transpose(1, 2).reshape(b, c, t) + 1.0", (2, 6, 4)
    ),
    "values and places": source("return F.max_pool2d(x0, 2, return_indices=True)", (2, 3, 8, 8)),
}


@pytest.mark.parametrize("text", ONE_PASS.values(), ids=ONE_PASS)
def test_movement_needs_no_pass_of_its_own(text: str) -> None:
    """What moves is read where it lies, by the kernel that needs it."""
    assert kinds(text) == ["elementwise"]


APART = {
    "a transposed product of this very kernel": source("b = x0 * 2.0\nreturn x1 + b.t(), b", (4, 4), (4, 4)),
    "a costly producer of overlapping windows": source("return F.max_pool2d(torch.tanh(x0), 3, 1)", (2, 3, 8, 8)),
    "a producer that somebody else reads": source("y = torch.relu(x0)\nreturn F.pad(y, (1, 1)), y", (3, 8)),
}


@pytest.mark.parametrize("text", APART.values(), ids=APART)
def test_what_is_read_elsewhere_is_in_memory_first(text: str) -> None:
    """A kernel reads no other program's part of what it makes itself, and computes nothing dear many times."""
    found = groups(text)
    assert len(found) == 2
    assert not any(group.elsewhere & group.values for group in found)


def test_the_tail_of_a_product_keeps_its_operand_laid_out() -> None:
    """A sliced residual does not cost the product its tail."""
    text = source("return self.fc(x0) + x1[:, :6]", (4, 5), (4, 8), init="self.fc = nn.Linear(5, 6)")
    assert kinds(text) == ["matmul"]


def test_a_reshape_that_copies_is_a_kernel() -> None:
    """Merging swapped dimensions moves numbers: that is said, and not left to a copy on the host."""
    text = triton(source("return x0.transpose(1, 2).reshape(2, 12) @ x1", (2, 3, 4), (12, 5)))
    assert kernels(text) == ["reshape", "matmul"]


def test_a_place_named_by_the_data_is_checked() -> None:
    """Out of range is refused, and never read."""
    problem = source("return F.embedding(x0.argmax(-1), self.table)", (3, 8), init="self.table = torch.ones(8, 4)")
    text = unbroken(triton(problem))
    assert "tl.device_assert((token >= 0) & (token < table_rows)" in text and "debug=True" in text
    assert "mask=inside & (token >= 0) & (token < table_rows)" in text


def test_lengths_that_do_not_fit_are_refused() -> None:
    """A slice that must be as long as something else is compared before anything is read."""
    text = triton(source("return x0[:, 2:] + x1", (3, 8), (3, 6)))
    assert "expect_length(max(x0.shape[1] - 2, 0), shape[1])" in text


def test_what_changes_nothing_is_not_written() -> None:
    """A permutation that keeps the order, and an expansion to the shape that is there, leave no trace."""
    text = triton(source("return torch.relu(x0.permute(0, 1, 2).expand(3, -1, 5)) @ x1", (3, 4, 5), (5, 6)))
    forward = text[text.index("def forward") :]
    assert "permute" not in forward and "expand" not in forward


def test_lengths_that_stay_need_no_number() -> None:
    """An expansion says what it repeats; the other lengths may be others in another build."""
    init = "self.w = nn.Parameter(torch.rand(1, 6))"
    problem = source("return (self.w.expand(7, 6) @ x0).softmax(0)", (6, 5), init=init)
    assert "self.w.expand(7, -1)" in triton(problem)


def test_an_expansion_within_a_flattened_row_is_none() -> None:
    """The norm that a flattened tensor is divided by is broadcast, whatever views its other operands are."""
    problem = source("y = (x0 @ x1).reshape(x0.shape[0], -1)\nreturn F.normalize(y)", (3, 4, 5), (5, 8))
    assert "expand" not in triton(problem)


def test_the_end_of_a_parameter_is_where_its_length_says() -> None:
    """In another build the parameter is longer or shorter: its last place is no number."""
    problem = source("return x0 * self.w[:, -2:]", (3, 2), init="self.w = nn.Parameter(torch.rand(3, 64))")
    text = unbroken(triton(problem))
    assert "max(w.shape[1] - 2, 0)" in text and "62" not in text


def test_a_length_of_forward_s_own_is_passed() -> None:
    """A join with a parameter that is expanded to the batch takes the batch: the launcher sees no name of forward's."""
    problem = source(
        "token = self.token.expand(x0.shape[0], -1, -1)\nreturn torch.cat([token, x0], 1) + 1.0",
        (3, 4, 8),
        init="self.token = nn.Parameter(torch.rand(1, 1, 8))",
    )
    text = unbroken(triton(problem))
    assert "def cat_add(token, x0, shape_0):\n" in text and "shape = (shape_0, 1 + x0.shape[1], token.shape[2])" in text


def test_one_place_captured_is_one_place_taken() -> None:
    """Where a dimension had one element, the file refuses more: nothing walks along it."""
    text = triton(source("return torch.softmax(x0, -1)", (4, 1, 8)))
    assert "expect_shape(x0, (x0.shape[0], 1, x0.shape[2]))" in text


def test_a_layer_s_numbers_hold_the_file_to_them() -> None:
    """A pool's window is written into the kernel, so another constructor argument is refused."""
    text = (
        "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    def __init__(self, size):\n"
        "        super().__init__()\n        self.pool = nn.MaxPool2d(size)\n\n    def forward(self, x):\n"
        "        return self.pool(x)\n\n\ndef get_inputs():\n    return [torch.rand(2, 3, 8, 8)]\n\n\n"
        "def get_init_inputs():\n    return [2]\n"
    )
    written = " ".join(triton(text).split())
    assert "self.pool.kernel_size" in written and "!= (2, 2, 0, 1)" in written


def test_a_number_in_a_list_holds_the_file_to_the_attribute() -> None:
    """A window's size that is an attribute of the user's own is refused where it is another."""
    text = triton(source("return F.max_pool2d(x0, (self.k, 2))", (2, 3, 12, 8), init="self.k = 3"))
    assert "if self.k != 3:" in text


def value(*sizes: int) -> Value:
    return Value("x", tuple(map(Size, sizes)), torch.float32)


def test_places_are_written_without_noise() -> None:
    """Nothing is multiplied by 1 or added 0 to."""
    x = length(value(4, 8), 1)
    assert plus(x, 0) is x and times(x, 1) is x and getattr(times(x, 0), "number", None) == 0


def test_lengths_of_views_are_written_over_what_they_look_at() -> None:
    """Half of a slice's length: the slice's own formula stands in the place of its length."""
    x, view = value(9), value(7)
    half = Measure(torch.int64, "{0} // 2", ((view, 0),), 3)
    rest = Measure(torch.int64, "{0} - 2", ((x, 0),), 7)
    found = inserted(half, 0, rest)
    assert isinstance(found, Measure) and found.text == "({0} - 2) // 2" and found.lengths == ((x, 0),)


COUNTS = {
    "unbind(1)": "expect_pieces(x.shape[1], 6)",
    "split(2, 1)": "expect_pieces(-(-x.shape[1] // 2), 3)",
    "split([2, 4], 1)": "expect_length(x.shape[1], 6)",
    "chunk(3, 1)": "expect_pieces(-(-x.shape[1] // max(-(-x.shape[1] // 3), 1)), 3)",
}


@pytest.mark.parametrize("pieces", COUNTS)
@pytest.mark.parametrize("made", ["x0", "self.layer(x0)"], ids=["given", "computed"])
def test_as_many_tensors_as_there_were_at_capture_are_not_assumed(pieces: str, made: str) -> None:
    """The kernel reads the pieces where they lie, and at another size readings would drop the rest: it is refused."""
    forward = f"x = {made}\nreturn torch.cat([torch.exp(piece) for piece in x.{pieces}], 1) * 2.0"
    text = triton(source(forward, (3, 6, 4), init="self.layer = nn.Linear(4, 4)"))
    held = "x0" if made == "x0" else "x"
    assert COUNTS[pieces].replace("x.", f"{held}.") in text.partition("def forward")[2]
    assert f"{pieces})" not in text


def test_a_count_that_no_size_changes_is_not_asked_for() -> None:
    """Two halves there are of any length, and what the user's own reshape makes has as many places as it says."""
    forward = "a, b = x0.chunk(2, 1)\nq, k = (a * b).reshape(-1, 2, 3).unbind(1)\nreturn q * k"
    assert "expect_pieces" not in triton(source(forward, (4, 12)))


def test_pieces_that_forward_itself_hands_on_are_made_by_one_call() -> None:
    """What no kernel reads through is unpacked as the user did."""
    forward = "q, k, v = self.layer(x0).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4).unbind(0)\n"
    text = triton(
        source(
            f"{forward}return F.scaled_dot_product_attention(q, k, v)", (2, 6, 8), init="self.layer = nn.Linear(8, 24)"
        )
    )
    body = text.partition("def forward")[2]
    assert body.count("permute") == 1 and "q, k, v = biased" in body
