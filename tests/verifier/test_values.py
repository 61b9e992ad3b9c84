"""Which other sizes the interpreter has time for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from verifier.cases import Case
from verifier.checks.values import takes_too_long
from verifier.trial import Trial


@pytest.mark.parametrize(("seconds", "too_long"), [(0.5, False), (6.0, True)])
def test_sizes_that_would_look_like_hanging_are_left_out(seconds: float, too_long: bool) -> None:
    """Twice the elements of a call that took 6 of 25 seconds are not tried, those of a quick one are."""
    given, larger = Case(1), Case(2, sizes="larger")

    def expected(case: Case) -> Any:
        size = 10 if case == given else 20
        return SimpleNamespace(given=[torch.zeros(size)], outputs=SimpleNamespace(truths=[]))

    nothing: Any = SimpleNamespace()
    reference: Any = SimpleNamespace(first_case=given, expected=expected)
    trial = Trial(nothing, "", reference, nothing, None, "cpu", 25.0, first_seconds=seconds)
    assert takes_too_long(trial, larger) is too_long
