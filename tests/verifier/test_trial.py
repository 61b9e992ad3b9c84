"""How long a candidate's answer is waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.verifier.kernels import PROBLEM, RIGHT
from verifier.trial import PATIENCE, Answer, Trial
from verifier.truth import Reference


class Patient:
    """A process that answers at once, and keeps how long it would have had."""

    limits: tuple[float, ...] = ()

    def ask(self, message: Answer, blobs: Sequence[Any], limit: float) -> tuple[Answer, list[bytes]]:
        """Answer."""
        self.limits += (limit,)
        return {"ok": True}, []

    def printed(self) -> tuple[int, str]:
        """Nothing is printed."""
        return 0, ""

    def close(self) -> None:
        """Nothing is open."""


def test_several_calls_in_one_request_have_the_time_of_several() -> None:
    """A kernel that takes seconds to interpret is not one that hangs when it is called four times."""
    process = Patient()
    trial = Trial(PROBLEM, RIGHT, Reference.open(PROBLEM), process, None, "cpu", 25.0, first_seconds=10.0)
    trial.ask({"do": "run"})
    trial.ask({"do": "repeat"}, calls=4)
    assert process.limits == (25.0, 25.0 + 3 * PATIENCE * 10.0)
