"""A turn's JSON is the public contract, and its exit code follows from what it holds."""

from __future__ import annotations

import json

from repl.turn import Candidate, Trouble, Turn
from verifier.problem import Problem
from verifier.verdict import Accuracy, Check, Timing, Verdict

VERDICT = Verdict(
    "pass",
    checks=(Check("values", "pass", "3 seeds"),),
    device="NVIDIA H200",
    in_triton=("gelu",),
    timing=Timing(1.0, 2.0, None, 2.0, (1.9, 2.1), 0.8),
    accuracy=Accuracy(1e-6, 1e-6, 1e-6),
    trace="secret",
)


def test_the_contract() -> None:
    """Every object has exactly the fields of the contract."""
    problem = Problem("source", "Net", notes=("added import torch",))
    turn = Turn(problem, (Candidate("b", "o", "k", VERDICT),), None, 1.5)
    data = json.loads(json.dumps(turn.to_dict()))
    assert list(data) == ["problem", "kernel", "candidates", "verdict", "error", "seconds"]
    assert data["problem"] == {"name": "Net", "source": "source", "notes": ["added import torch"]}
    assert list(data["candidates"][0]) == ["backend", "origin", "verdict", "repaired", "seconds"]
    assert data["kernel"] == "k"
    assert set(data["verdict"]) == {
        "outcome", "code", "message", "checks", "warnings", "device", "in_triton", "in_pytorch", "timing", "accuracy",
    }  # fmt: skip
    assert set(data["verdict"]["timing"]) == {
        "kernel_ms", "eager_ms", "compile_ms", "speedup", "interval", "roofline",
    }  # fmt: skip


def test_a_kernel_that_is_not_verified_is_not_given() -> None:
    """`kernel` is null unless it is verified."""
    turn = Turn(Problem("s", "M"), (Candidate("b", "o", "k", Verdict("fail", "crash")),))
    assert turn.to_dict()["kernel"] is None and turn.exit_code == 1


def test_exit_codes() -> None:
    """Each ending has the exit code that the contract gives it."""
    codes = {"empty": 2, "reference_error": 2, "backend_unavailable": 3, "out_of_memory": 4, "interrupted": 130}
    assert {code: Turn(error=Trouble(code, "")).exit_code for code in codes} == codes
    assert Turn(candidates=(Candidate("b", "o", "k", Verdict("cannot_verify")),)).exit_code == 4
    interrupted = Turn(candidates=(Candidate("b", "o", "k", VERDICT),), error=Trouble("interrupted", ""))
    assert interrupted.exit_code == 130


def test_code_that_does_not_parse_is_nearer_than_no_code() -> None:
    """With nothing better to show, what was written is shown."""
    nothing, broken = (Candidate("b", "o", kernel, Verdict("fail", "x")) for kernel in ("", "x = ("))
    assert Turn(candidates=(nothing, broken)).best is broken
