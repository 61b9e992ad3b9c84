"""A wrong result points at its cause."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from verifier.compare import compare_tensor
from verifier.tolerance import truth

G = torch.Generator().manual_seed(1)
WANT = torch.randn(32, 32, generator=G)
GIVEN = torch.randn(32, 32, generator=G)


def changed(at: object, value: float | Tensor = 9.0) -> Tensor:
    """Return the right answer with some elements replaced."""
    got = WANT.clone()
    got[at] = value  # type: ignore[index]
    return got


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (changed((slice(24, None), slice(None))), "only the tail: everything right before element 768 of 1024"),
        (changed((slice(None), slice(30, None))), "only from index 30 on in dimension 1 (size 32)"),
        (changed((slice(0, 2), slice(None))), "only up to index 1 in dimension 0"),
        (changed((5, slice(None))), "only index 5 of dimension 0"),
        (torch.zeros(32, 32), "all zeros"),
        (torch.full((32, 32), 0.25), "same value"),
        (WANT * 3, "constant factor of 3"),
        (WANT + 0.5, "constant 0.5"),
        (-WANT, "sign is flipped"),
        (WANT.t(), "transposed"),
        (torch.where(GIVEN < 0, WANT + 1 + GIVEN, WANT), "only where input 0 < 0"),
        (torch.where(GIVEN.abs() > 1, WANT + GIVEN, WANT), "only where |input 0| >"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_the_pattern_is_named(got: Tensor, words: str) -> None:
    """Tail, rows, columns, sign, scale, offset, transposition, and the inputs concerned."""
    finding = compare_tensor(truth(WANT, WANT.double()), got, "output", (GIVEN,))
    assert finding is not None and words in finding.message


def test_the_first_wrong_elements_are_shown_with_expected_and_got() -> None:
    """Index, what it should be, and what it is."""
    finding = compare_tensor(truth(WANT, WANT.double()), changed((3, 4)), "output[1]")
    assert finding is not None
    assert finding.message.startswith("output[1]: 1 of 1024 (0.098 %) of elements wrong")
    assert f"[3, 4] should be {WANT[3, 4].item():.6g}, is 9" in finding.message


@pytest.mark.parametrize(
    ("round_", "kind"),
    [(lambda x: x.half().float(), "fp16 or TF32"), (lambda x: x.bfloat16().float(), "bf16")],
    ids=["half", "bf16"],
)
def test_rounding_noise_is_told_from_a_wrong_formula(round_: Callable[[Tensor], Tensor], kind: str) -> None:
    """Noise does not follow the value; the tanh form of GELU differs smoothly from the erf form."""
    a, b = torch.randn(64, 64, generator=G), torch.randn(64, 64, generator=G)
    exact = a.double() @ b.double()
    finding = compare_tensor(truth(a @ b, exact), round_(a) @ round_(b), "y")
    assert finding is not None and finding.code == "precision_downgrade" and kind in finding.message
    want = torch.nn.functional.gelu(a.double())
    other = torch.nn.functional.gelu(a, approximate="tanh")
    finding = compare_tensor(truth(want.float(), want), other, "y")
    assert finding is not None and finding.code == "value_mismatch"
