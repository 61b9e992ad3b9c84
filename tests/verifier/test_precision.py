"""How exact a kernel must be: as PyTorch is, or, where the person says so, as TF32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.verifier.references import LINEAR, SOFTMAX, judge, load, problem
from verifier.problem import Problem

DEEP = problem(
    "self.b(torch.tanh(self.a(x)))", "torch.randn(40, 64)",
    constructor="|self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 64)",
)  # fmt: skip


def rounded(value: Tensor, bits: int) -> Tensor:
    """Round to so many bits of mantissa."""
    mantissa, exponent = torch.frexp(value)
    return torch.ldexp(torch.round(mantissa * 2.0 ** (bits + 1)) / 2.0 ** (bits + 1), exponent)


def with_products_of(bits: int) -> Callable[..., Any]:
    """Answer with the module's own forward, operands of its products rounded."""

    def answer(model: torch.nn.Module, *inputs: Tensor) -> Any:
        kept = torch.nn.functional.linear
        torch.nn.functional.linear = lambda x, w, b=None: kept(rounded(x, bits), rounded(w, bits), b)
        try:
            return model(*inputs)
        finally:
            torch.nn.functional.linear = kept

    return answer


@pytest.mark.parametrize("given", [LINEAR, DEEP], ids=["linear", "two layers"])
@pytest.mark.parametrize(("precision", "bits", "passes"), [
    ("exact", 10, False), ("exact", 23, True), ("fast", 10, True), ("fast", 7, False),
])  # fmt: skip
def test_products_of_fewer_bits(given: Problem, precision: Any, bits: int, passes: bool) -> None:
    """TF32's ten bits pass only when asked for, bfloat16's seven never."""
    reference = replace(load(given), precision=precision)
    assert (judge(reference, with_products_of(bits)) is None) == passes


def test_a_wrong_scale_is_no_matter_of_precision() -> None:
    """A result that is one percent off stays wrong."""
    reference = replace(load(SOFTMAX), precision="fast")
    assert judge(reference, lambda model, x: model(x) * 1.01) is not None


def test_half_types_are_as_exact_as_ever() -> None:
    """The option speaks of float32 alone."""
    given = problem("x * 3", "torch.randn(64, 64, dtype=torch.float64)")
    reference = replace(load(given), precision="fast")
    assert judge(reference, lambda model, x: (x * 3) * (1 + 1e-6)) is not None
