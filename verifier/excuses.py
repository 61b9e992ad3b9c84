"""Is a failure the kernel's, or the interpreter's? Only where a kernel failed is the interpreter put to the test."""

from __future__ import annotations

from verifier.errors import VerificationError
from verifier.interpreter import selftest
from verifier.nursery import Nursery
from verifier.trial import CannotVerify, Failed, Trial

DOUBTFUL = frozenset(
    """
    value_mismatch nan_output precision_downgrade wrong_for_other_sizes runtime_error nondeterministic
    """.split()
)
"""Failures that a fault of the interpreter could cause."""
SECONDS = 10.0


class Excuses:
    """What the installed interpreter is known to get wrong, found out once."""

    def __init__(self, nursery: Nursery | None) -> None:
        self._nursery = nursery
        self._faults: dict[str, str] | None = None

    def find(self, failure: Failed, trial: Trial) -> CannotVerify | None:
        """Return that a failure says nothing about the kernel, or None where it does."""
        if not trial.cpu or failure.code not in DOUBTFUL:
            return None
        given = trial.reference.expected(trial.reference.first_case).given
        return excuse(trial.kernel, self._known(), {str(tensor.dtype).removeprefix("torch.") for tensor in given})

    def _known(self) -> dict[str, str]:
        if self._faults is None:
            self._faults = self._tested()
        return self._faults

    def _tested(self) -> dict[str, str]:
        if self._nursery is None:
            return selftest.broken()
        with self._nursery.spawn("verifier.interpreter.selftest:serve", interpret=True) as child:
            answer = child.receive(SECONDS)
        if answer is None:
            raise VerificationError("verifier_unavailable", "Triton's interpreter does not answer", "try again")
        return dict(answer["broken"])


def excuse(kernel: str, faults: dict[str, str], dtypes: set[str]) -> CannotVerify | None:
    """Return that a kernel cannot be judged because it uses what the interpreter gets wrong."""
    feature = selftest.doubtful(kernel, faults, dtypes)
    if not feature:
        return None
    text = f"the installed Triton's interpreter gets {feature} wrong ({faults[feature]}): a GPU is needed"
    return CannotVerify("not_interpretable", text)
