"""One candidate on trial: its contained process, the reference, and what has been seen so far.

Checks read and fill this; a check that fails raises Failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from verifier.cases import Case
from verifier.encoding import decode
from verifier.problem import Problem
from verifier.tree import Tree
from verifier.truth import Reference
from verifier.verdict import Accuracy, Timing

Answer = dict[str, Any]
PATIENCE = 3.0
"""Times the first call's seconds that a later one may take: other programs want the processor, too."""


class Failed(Exception):
    """The candidate is wrong; `code` is one of verdict.CODES."""

    def __init__(self, code: str, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.trace = code, message, trace


class CannotVerify(Exception):
    """Here this candidate cannot be judged, which is not its fault."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Process(Protocol):
    """Where a candidate runs: a contained child, or this very process."""

    def ask(self, message: Answer, blobs: Sequence[Any], limit: float) -> tuple[Answer, list[bytes]]:
        """Send a request and return the answer; raise Failed when the process does not live to give it."""
        ...

    def printed(self) -> tuple[int, str]:
        """Return how much was printed, and the beginning of it."""
        ...

    def close(self) -> None:
        """End the process."""
        ...


@dataclass(frozen=True)
class Call:
    """What came back from one call of the candidate."""

    answer: Answer
    outputs: Tree
    inputs: Tree
    state: Tree
    blobs: tuple[bytes, ...]

    @property
    def launches(self) -> list[Answer]:
        """The kernel launches of this call."""
        return list(self.answer["launches"])


@dataclass
class Trial:
    """Everything about one candidate while it is judged."""

    problem: Problem
    kernel: str
    reference: Reference
    process: Process
    compiler: Any
    device: str
    seconds: float
    warnings: list[str] = field(default_factory=list)
    state: Answer = field(default_factory=dict)
    scratch: str = ""  # its child's own folder: what is compiled there need not be compiled again
    compiled: str = ""  # such a folder of an earlier child of the candidate
    guarded: bool = True  # on a GPU: tensors lie between guard bands
    first: Call | None = None
    first_seconds: float = 0.0  # what that call took
    in_triton: tuple[str, ...] = ()
    in_pytorch: tuple[str, ...] = ()
    accuracy: Accuracy | None = None
    timing: Timing | None = None

    @property
    def cpu(self) -> bool:
        """Whether kernels are interpreted."""
        return self.device == "cpu"

    def warn(self, text: str) -> None:
        """Keep a warning, once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def call(self, case: Case, **how: bool) -> Call:
        """Run the candidate on a case; raise Failed for whatever the process itself gives away."""
        answer, blobs = self.ask({"do": "run", "case": asdict(case), **how})
        parts, at = [], 0
        try:
            for name in ("outputs", "inputs", "state"):
                count = len(answer[name]["tensors"])
                parts.append(decode(answer[name], blobs[at : at + count]))
                at += count
        except (ValueError, KeyError, TypeError) as fault:
            raise Failed("cheat", f"tampering: the results do not fit their own description ({fault})") from fault
        outputs, inputs, state = parts
        return Call(answer, outputs, inputs, state, tuple(blobs))

    def ask(self, message: Answer, blobs: Sequence[Any] = (), calls: int = 1) -> tuple[Answer, list[bytes]]:
        """Ask the candidate's process, and look at what it did besides answering; there is time for so many calls."""
        from verifier.checks import conduct

        answer, got = self.process.ask(message, blobs, self.seconds + (calls - 1) * PATIENCE * self.first_seconds)
        conduct.check(self, answer)
        if not answer.get("ok"):
            code, text = str(answer.get("code", "runtime_error")), str(answer.get("message", ""))
            if code == "not_interpretable":
                raise CannotVerify(code, f"cannot be verified without a GPU: {text}")
            raise Failed(code, text, str(answer.get("trace", "")))
        return answer, got
