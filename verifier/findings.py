"""How a verdict is put into words: the rows of its failures, and what was seen on the way."""

from __future__ import annotations

from dataclasses import replace

from verifier.trial import Trial
from verifier.verdict import Verdict


def with_findings(verdict: Verdict, trial: Trial) -> Verdict:
    """Put what a trial has found into its verdict."""
    passed = verdict.outcome == "pass"
    return replace(
        verdict,
        warnings=tuple(trial.warnings),
        in_triton=trial.in_triton if passed else (),
        in_pytorch=trial.in_pytorch,
        timing=trial.timing if passed else None,
        accuracy=trial.accuracy,
    )


def praise(verdict: Verdict) -> str:
    """Say what passing means."""
    where = "PyTorch's own result on every check"
    return f"verified: matches {where}" + (f", with {len(verdict.warnings)} warnings" if verdict.warnings else "")


def row(code: str) -> str:
    """Name the row of the table that a failure stands in."""
    rows = {
        "parses": ("no_code", "syntax_error"),
        "loads": ("import_error", "no_modelnew"),
        "parameters": ("state_mismatch",),
        "in Triton": ("no_triton_kernel",),
        "memory": ("out_of_bounds", "race", "illegal_access"),
        "honest": ("cheat",),
        "compiles": ("compile_error", "gpu_resources"),
        "other sizes": ("wrong_for_other_sizes",),
        "repeatable": ("nondeterministic",),
        "inputs": ("input_mutation",),
        "runs": ("runtime_error", "crash", "timeout", "memory_limit", "process_exit", "signature_mismatch"),
    }
    return next((row for row, codes in rows.items() if code in codes), "values")
