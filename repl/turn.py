"""One problem and all that became of it, as plain data; `Turn.to_dict` is the `--json` contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backends import BackendUnavailable, NothingToConvert
from verifier.problem import NotAProblem, Problem
from verifier.verdict import Verdict

VERIFIED, FAILED, USAGE, NO_BACKEND, CANNOT_VERIFY, INTERRUPTED = 0, 1, 2, 3, 4, 130

_EXIT_OF_ERROR = {
    "backend_unavailable": NO_BACKEND,
    "interrupted": INTERRUPTED,
    "out_of_memory": CANNOT_VERIFY,
    "no_gpu": CANNOT_VERIFY,
    "verifier_unavailable": CANNOT_VERIFY,
    "verifier_error": CANNOT_VERIFY,
    "cannot_interpret": CANNOT_VERIFY,
    "internal_error": CANNOT_VERIFY,
}
"""Every other error code says that the input is at fault: exit 2."""

_EXIT_OF_OUTCOME = {"pass": VERIFIED, "fail": FAILED, "cannot_verify": CANNOT_VERIFY}

_VERDICT_FIELDS = (
    "outcome", "code", "message", "checks", "warnings", "device", "in_triton", "in_pytorch", "timing", "accuracy",
)  # fmt: skip


@dataclass(frozen=True)
class Trouble:
    """What went wrong, for a person: a code of the error contract, one line, and what to do."""

    code: str
    message: str
    hint: str = ""
    line: int | None = None

    @property
    def exit_code(self) -> int:
        """The exit status of a run that ends with this."""
        return _EXIT_OF_ERROR.get(self.code, USAGE)

    def to_dict(self) -> dict[str, Any]:
        """Return the `error` object of the contract."""
        return {"code": self.code, "message": self.message, "hint": self.hint, "line": self.line}


@dataclass(frozen=True)
class Candidate:
    """One kernel that was written, where it came from, and what the verifier said.

    `parent` is the number of the candidate that it fixes or speeds up, `repaired` what was mended in the model's
    text, and `seconds` when, counted from the start of the turn, the verdict stood. `prose` and `reasoning` are what a
    model said beside the kernel and thought before it.
    """

    backend: str
    origin: str
    kernel: str
    verdict: Verdict
    number: int = 0
    parent: int | None = None
    repaired: tuple[str, ...] = ()
    seconds: float = 0.0
    prose: str = ""
    reasoning: str = ""


@dataclass(frozen=True)
class Turn:
    """One problem through a backend and the verifier."""

    problem: Problem | None = None
    candidates: tuple[Candidate, ...] = ()
    error: Trouble | None = None
    seconds: float = 0.0

    @property
    def best(self) -> Candidate | None:
        """The best candidate: verified before unjudged before failed, then the faster, then the more complete."""
        return min(self.candidates, key=rank, default=None)

    @property
    def verdict(self) -> Verdict | None:
        """What was said about the best candidate."""
        return self.best.verdict if self.best else None

    @property
    def kernel(self) -> str | None:
        """The best verified kernel, or None: what is not verified is only in the candidates."""
        return self.best.kernel if self.best and self.best.verdict.passed else None

    @property
    def judged(self) -> Verdict | None:
        """The verdict, unless it only repeats the error for which nothing could be judged."""
        return None if self.verdict and self.error and self.verdict.code == self.error.code else self.verdict

    @property
    def exit_code(self) -> int:
        """The exit status of a one-shot run: a verified kernel counts even when the loop ended with an error."""
        if self.error and self.error.exit_code == INTERRUPTED:
            return INTERRUPTED
        if self.best and (self.best.verdict.passed or not self.error):
            return _EXIT_OF_OUTCOME[self.best.verdict.outcome]
        return self.error.exit_code if self.error else CANNOT_VERIFY

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the contract."""
        return {
            "problem": _problem(self.problem),
            "kernel": self.kernel,
            "candidates": [_candidate(candidate) for candidate in self.candidates],
            "verdict": verdict_dict(self.verdict) if self.verdict else None,
            "error": self.error.to_dict() if self.error else None,
            "seconds": round(self.seconds, 3),
        }


def rank(candidate: Candidate) -> tuple[int, float, int]:
    """Order candidates, best first; of equals the first drawn wins because min() and sorted() are stable."""
    verdict = candidate.verdict
    if verdict.passed:
        return 0, verdict.timing.kernel_ms if verdict.timing else float("inf"), len(verdict.in_pytorch)
    passed = sum(check.outcome == "pass" for check in verdict.checks) if candidate.kernel.strip() else -1
    return (1 if verdict.outcome == "cannot_verify" else 2), 0.0, -passed


def verdict_dict(verdict: Verdict) -> dict[str, Any]:
    """Return the `verdict` object of the contract."""
    full = verdict.to_dict()
    return {name: full[name] for name in _VERDICT_FIELDS}


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "backend": candidate.backend,
        "origin": candidate.origin,
        "verdict": verdict_dict(candidate.verdict),
        "repaired": list(candidate.repaired),
        "seconds": round(candidate.seconds, 3),
    }


def trouble_of(error: Exception) -> Trouble | None:
    """Return what an expected exception tells the person, or None for one that nobody expected."""
    from verifier.errors import VerificationError

    if isinstance(error, BackendUnavailable):
        return Trouble("backend_unavailable", error.message, error.hint)
    if isinstance(error, (NotAProblem, NothingToConvert, VerificationError)):
        return Trouble(error.code, error.message, error.hint, error.line)
    return None


def _problem(problem: Problem | None) -> dict[str, Any] | None:
    if problem is None:
        return None
    return {"name": problem.name, "source": problem.source, "notes": list(problem.notes)}
