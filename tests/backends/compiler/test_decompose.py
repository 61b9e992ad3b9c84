"""Operators without a rule: taken apart by PyTorch's own decompositions, and numbers that follow from the place."""

from __future__ import annotations

import pytest
import sympy

from backends import NothingToConvert
from backends.compiler.decompose import Parts
from tests.backends.compiler.written import kernels, source, triton, unbroken

TWO = ((4, 6), (4, 6))


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("hstack([x0, x1])", ["hstack"]),
        ("logaddexp2(x0, x1)", ["logaddexp2"]),
        ("trapezoid(x0, dim=1)", ["tensor_sum", "trapezoid"]),
    ],
)
def test_an_operator_without_a_rule_is_written_by_its_parts(call: str, names: list[str]) -> None:
    """What PyTorch knows how to write by others is called by the user's name for it."""
    text = triton(source(f"return torch.{call}", *TWO))
    assert "In PyTorch: nothing" in text and kernels(text) == names


def test_what_has_no_parts_with_rules_stays_whole() -> None:
    """A part that PyTorch would have to run leaves the user's own call where it is."""
    text = triton(source("return torch.cdist(x0, x1) * 2.0", *TWO))
    assert "torch.ops.aten.cdist.default(x0, x1)" in text


def test_what_has_too_many_parts_stays_whole() -> None:
    """Hundreds of operations in place of one are no kernel that a person would keep."""
    text = triton(source("return F.interpolate(x0, scale_factor=2, mode='bicubic') * 2.0", (1, 2, 4, 5)))
    assert "In PyTorch: upsample_bicubic2d" in text and len(kernels(text)) == 1


def test_a_condition_that_a_decomposition_finds_true_is_asked_of_other_sizes() -> None:
    """A trace that compared sizes holds for such sizes alone."""
    text = triton(source("return torch.select_scatter(x0, x1[0] * 2.0, 0, 1)", *TWO))
    assert "if not (x1.shape[1] == x0.shape[1]):" in text or "expect_shape" in text


def test_a_range_is_computed_where_it_is_used() -> None:
    """The numbers of arange follow from the place: no kernel reads them from memory."""
    forward = "n = x0.shape[1]\nkept = torch.arange(n)[None, :] >= torch.arange(n)[:, None] + 1\nreturn x0 * kept"
    text = triton(source(forward, (8, 8)))
    assert "torch.arange" not in text and "column >= row + 1" in text


def test_a_range_of_a_number_is_held_to_that_length() -> None:
    """Where tracing tied an input's size to the range's, the range is read, and its shape checked."""
    text = triton(source("return x0 * torch.arange(6)", (4, 6)))
    assert "expect_shape(arange" in text or "x0.shape[1] != 6" in text


def test_a_length_that_forward_passes_has_the_launchers_name() -> None:
    """What a launcher allocates by is an argument of it, not a variable of forward's."""
    forward = "made = self.token.expand(x0.shape[0], -1, -1)\nreturn torch.cat([made, torch.exp(x0)], 1)"
    text = triton(source(forward, (3, 4, 5), init="self.token = nn.Parameter(torch.rand(1, 1, 5))"))
    launcher = text.partition("def cat")[2] or text.partition("def exp_cat")[2]
    assert "x0.shape[0]" not in launcher.partition("class ModelNew")[0].replace("x0.shape[0]:", "")


def test_sizes_that_a_trace_has_taken_for_each_other_stay_tied() -> None:
    """Parts that are dropped again leave the trace simplified: the file asks what it took for granted."""
    equality = sympy.Eq(sympy.Symbol("s1"), sympy.Symbol("s0"))
    assert Parts(None, (), (equality, sympy.Symbol("s0") > 2)).ties == [equality]


def test_no_decomposition_is_asked_of_an_empty_tensor() -> None:
    """Many return early there, in ways that say nothing of other sizes."""
    with pytest.raises(NothingToConvert, match="native_group_norm would all stay"):
        triton(source("return torch.native_group_norm(x0, x1, x1, 0, 2, 1, 1, 1e-5)", (0, 2), (2,)))


def test_a_dtype_that_no_kernel_knows_is_left_to_pytorch() -> None:
    """A cast to complex numbers has no Triton."""
    text = triton(source("return (x0 * 2.0).to(torch.complex64), x0 + 1.0", (4, 6)))
    assert "torch.complex64" in text and "tl.complex" not in text


def test_a_number_given_to_cudas_library_has_its_tensors_type() -> None:
    """The library's functions convert no argument; a bare number would be a float32."""
    double = source("return torch.remainder(x0.double(), 0.7)", (4, 6))
    assert ", tl.full((), 0.7, tl.float64))" in unbroken(triton(double))
