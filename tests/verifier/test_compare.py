"""What counts as the same result, and how a difference is described."""

from __future__ import annotations

import math
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from verifier.compare import Expectation, Expected, accuracy, compare, compare_tensor
from verifier.structure import Finding
from verifier.tolerance import truth, untouched
from verifier.tree import flatten

NOTHING = Expectation(flatten(()).spec, ())
Pair = namedtuple("Pair", "left right")


@dataclass
class Output:
    """A structured result, as models return them."""

    logits: Tensor
    loss: Tensor | None = None


def expect(value: Any) -> Expected:
    """Expect a value, with itself as the oracle."""
    tree = flatten(value)
    return Expected(Expectation(tree.spec, tuple(truth(t) for t in tree.tensors)), NOTHING, NOTHING)


def judge(wanted: Any, got: Any) -> Finding | None:
    """Compare two values."""
    return compare(expect(wanted), flatten(got))


X = torch.arange(12.0).reshape(3, 4) + 1


@pytest.mark.parametrize(
    "value",
    [X, (X, None, 3), [X, (X, "a")], {"a": X, "b": {"c": 1.5}}, Pair(X, X), Output(X), (), None, 7, X.long(), X > 3,
     torch.tensor(2.0), torch.empty(0, 4), X.to(torch.bfloat16), torch.complex(X, X), {"nan": math.nan}],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_value_is_itself(value: Any) -> None:
    """Every structure a module may return compares equal to its copy."""
    assert judge(value, value) is None


@pytest.mark.parametrize(
    ("wanted", "got"),
    [((X, X), X), (X, None), ((X, X), [X, X]), ({"a": X}, {"b": X}), ((X, None), (X, X)), (Output(X), {"logits": X}),
     (Pair(X, X), (X, X)), ((X, 3), (X, X)), ([X], [X, X]), (X, "X")],
    ids=str,
)  # fmt: skip
def test_another_structure_is_a_mismatch(wanted: Any, got: Any) -> None:
    """Tuples, lists, dicts, dataclasses, None and scalars are told apart."""
    finding = judge(wanted, got)
    assert finding is not None and finding.code == "structure_mismatch"


def test_the_order_of_dict_keys_does_not_count() -> None:
    """Values are found by key."""
    assert judge({"a": X, "b": X + 1}, {"b": X + 1, "a": X}) is None
    assert judge({"a": X, "b": X + 1}, {"b": X, "a": X + 1}) is not None


def test_torch_return_types_count_as_tuples() -> None:
    """A kernel cannot build torch.return_types.max."""
    assert judge(X.max(1), tuple(X.max(1))) is None


def test_scalars_are_compared_by_value() -> None:
    """Integers exactly, floats closely, and True is not 1."""
    assert judge((X, 3), (X, 4)) is not None and judge((X, True), (X, 1)) is not None
    assert judge((X, 0.1), (X, 0.1 + 1e-9)) is None and judge((X, 0.1), (X, 0.2)) is not None


@pytest.mark.parametrize(
    ("got", "code"),
    [(X.reshape(12), "shape_mismatch"), (X.double(), "dtype_mismatch"), (X + 1, "value_mismatch"),
     (X.masked_fill(X == 5, math.nan), "nan_output"), (X.masked_fill(X == 5, math.inf), "nan_output")],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_the_code_says_what_is_wrong(got: Tensor, code: str) -> None:
    """Shape, dtype, finiteness and values, in this order."""
    finding = judge(X, got)
    assert finding is not None and finding.code == code


def test_infinities_and_nan_must_stand_where_they_stand_in_the_reference() -> None:
    """An infinity of the other sign, or a number in its place, is wrong."""
    wanted = torch.tensor([1.0, math.inf, -math.inf, math.nan])
    assert judge(wanted, wanted.clone()) is None
    for place, value in ((1, -math.inf), (1, 1e30), (3, 0.0), (3, math.inf), (2, math.nan)):
        got = wanted.clone()
        got[place] = value
        assert judge(wanted, got) is not None


def test_an_index_that_rounding_decides_may_be_either() -> None:
    """Where eager and the float64 oracle pick different maxima, both are right and nothing else is."""
    known = truth(torch.tensor([0, 5]), torch.tensor([1, 5]))
    assert compare_tensor(known, torch.tensor([0, 5]), "i") is None
    assert compare_tensor(known, torch.tensor([1, 5]), "i") is None
    assert compare_tensor(known, torch.tensor([2, 5]), "i") is not None
    assert compare_tensor(known, torch.tensor([0, 6]), "i") is not None


def test_a_finite_result_where_only_eager_overflowed_is_right() -> None:
    """Accumulating in float32 is better than eager's float16, not wrong."""
    known = truth(torch.tensor([math.inf, 1.0], dtype=torch.float16), torch.tensor([60000.0, 1.0]))
    assert compare_tensor(known, torch.tensor([60000.0, 1.0], dtype=torch.float16), "y") is None
    assert compare_tensor(known, torch.tensor([math.inf, 1.0], dtype=torch.float16), "y") is None
    assert compare_tensor(known, torch.tensor([100.0, 1.0], dtype=torch.float16), "y") is not None


def test_what_must_not_change_is_compared_bit_for_bit() -> None:
    """Also NaN stays NaN."""
    known = untouched(torch.tensor([1.0, math.nan]))
    assert compare_tensor(known, torch.tensor([1.0, math.nan]), "x") is None
    assert compare_tensor(known, torch.tensor([1.0 + 1e-7 * 2, math.nan]), "x") is not None


def test_accuracy_measures_both_the_kernel_and_eager() -> None:
    """Distances to the oracle, relative to the output's size."""
    eager = X * (1 + 1e-6)
    expected = Expected(Expectation(flatten(X).spec, (truth(eager, X.double()),)), NOTHING, NOTHING)
    measured = accuracy(expected, flatten(X * (1 + 1e-3)))
    assert measured is not None
    assert 2e-4 < measured.max_rel < 2e-3 and 1e-7 < measured.eager_max_rel < 2e-6


FLOATS = st.lists(st.floats(-1e6, 1e6, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6), min_size=1, max_size=60)


@given(FLOATS, st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.float64]))
@settings(max_examples=60, deadline=None)
def test_a_rounded_oracle_always_passes(values: list[float], dtype: torch.dtype) -> None:
    """The best any kernel can do is the exact value rounded once."""
    exact = torch.tensor(values, dtype=torch.float64).clamp(-6e4, 6e4)
    known = truth(exact.to(dtype), exact)
    assert compare_tensor(known, exact.to(dtype), "y") is None


@given(FLOATS, st.integers(0, 59), st.sampled_from([0.03, -0.03, 1.0, -2.0]))
@settings(max_examples=60, deadline=None)
def test_one_wrong_element_always_fails(values: list[float], place: int, error: float) -> None:
    """However many others are right, and whatever their size: the error is relative to the element itself."""
    exact = torch.tensor(values, dtype=torch.float64)
    place %= len(values)
    exact[place] = exact[place] if abs(exact[place]) >= 1 else 1.0
    wrong = exact.float()
    wrong[place] = wrong[place] * (1 + error)
    scale_of_others = float(exact.abs().max())
    if abs(float(exact[place]) * error) < 1e-3 * scale_of_others:
        return  # lost beside much larger neighbours, as it is in any float32 sum
    assert compare_tensor(truth(exact.float(), exact), wrong, "y") is not None


@given(st.floats(1e-30, 1e30), st.integers(2, 200))
@settings(max_examples=40, deadline=None)
def test_zeros_never_pass_for_something_whatever_its_size(size: float, count: int) -> None:
    """Tolerance is relative: an output of 1e-30 is judged like one of 1e30."""
    exact = torch.linspace(0.5, 1.0, count, dtype=torch.float64) * size
    known = truth(exact.float(), exact)
    assert compare_tensor(known, torch.zeros(count), "y") is not None
    assert compare_tensor(known, exact.float(), "y") is None


def test_a_few_huge_elements_do_not_hide_the_others() -> None:
    """Masked logits of -1e9 must not make every other value free."""
    exact = torch.randn(64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    masked = exact.masked_fill(torch.ones(64, 64).triu(1).bool(), -1e9)
    known = truth(masked.float(), masked)
    wrong = torch.where(masked > -1e8, masked * 1.01, masked).float()
    assert compare_tensor(known, masked.float(), "y") is None
    assert compare_tensor(known, wrong, "y") is not None
