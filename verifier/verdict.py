"""What a verification says: plain frozen data, no torch, no display.

The JSON form of every class is the public contract of `--json`; `from_dict(to_dict(v)) == v`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

CheckOutcome = Literal["pass", "fail", "warn", "skip"]
VerdictOutcome = Literal["pass", "fail", "cannot_verify"]

CODES = frozenset(
    """
    no_code syntax_error import_error no_modelnew signature_mismatch state_mismatch no_triton_kernel compile_error
    gpu_resources runtime_error illegal_access crash timeout memory_limit process_exit structure_mismatch
    shape_mismatch dtype_mismatch nan_output value_mismatch wrong_for_other_sizes nondeterministic out_of_bounds
    race input_mutation precision_downgrade cheat
    """.split()
)
"""Codes a failing verdict may carry. A `cheat` names its kind in the message."""


@dataclass(frozen=True)
class Check:
    """One row of the table: what was looked at, how it came out, and the one detail worth reading."""

    name: str
    outcome: CheckOutcome
    detail: str = ""


@dataclass(frozen=True)
class Timing:
    """Medians in milliseconds from one interleaved run on a GPU; never from the interpreter.

    `speedup` is eager / kernel, `interval` its 95 % interval, `roofline` the share (0 to 1) of what the
    memory or the arithmetic of the device allows for this problem, or None where it is not known.
    """

    kernel_ms: float
    eager_ms: float
    compile_ms: float | None
    speedup: float
    interval: tuple[float, float]
    roofline: float | None = None


@dataclass(frozen=True)
class Accuracy:
    """Largest distances to the float64 oracle, of the kernel and of eager PyTorch itself."""

    max_abs: float
    max_rel: float
    eager_max_rel: float


@dataclass(frozen=True)
class Verdict:
    """The result of `verifier.verify`: a value, also when the kernel is wrong.

    `code` is empty on a pass, one of CODES on a failure, and a code of the error contract
    (such as "reference_error") when nothing could be judged. `message` is one line a person can act on;
    `trace` holds what a person may want to read after it (a traceback), never shown unasked.
    """

    outcome: VerdictOutcome
    code: str = ""
    message: str = ""
    checks: tuple[Check, ...] = ()
    warnings: tuple[str, ...] = ()
    device: str = ""
    in_triton: tuple[str, ...] = ()
    in_pytorch: tuple[str, ...] = ()
    timing: Timing | None = None
    accuracy: Accuracy | None = None
    trace: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """True only for a verified kernel."""
        return self.outcome == "pass"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the `--json` contract."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Verdict:
        """Rebuild a verdict from `to_dict`'s result, also after a trip through JSON."""
        timing, accuracy = data.get("timing"), data.get("accuracy")
        verdict = cls(**{**data, "timing": None, "accuracy": None, "checks": ()})
        return replace(
            verdict,
            checks=tuple(Check(**check) for check in data.get("checks", ())),
            timing=Timing(**{**timing, "interval": tuple(timing["interval"])}) if timing else None,
            accuracy=Accuracy(**accuracy) if accuracy else None,
            warnings=tuple(data.get("warnings", ())),
            in_triton=tuple(data.get("in_triton", ())),
            in_pytorch=tuple(data.get("in_pytorch", ())),
        )
