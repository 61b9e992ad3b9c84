"""Does it look where its inputs lie? They are laid out otherwise, with strides that are no longer the shape's own.

The module's own inputs decide over pass and fail: where those are contiguous, a kernel that counts on it is warned
about, and one that refuses anything else is not even that.
"""

from __future__ import annotations

from dataclasses import replace

from verifier import compare
from verifier.cases import Case
from verifier.checks import values
from verifier.errors import VerificationError
from verifier.layouts import AS_STORED, relaid
from verifier.tree import Tree
from verifier.trial import Failed, Trial
from verifier.verdict import Check

_REFUSALS = ("runtime_error", "signature_mismatch", "not_interpretable")
_SERIOUS = ("cheat", "crash", "process_exit", "timeout", "memory_limit")


def check(trial: Trial, cases: list[Case]) -> list[Check]:
    """Run every layout that the reference accepts; no row where there is none."""
    followed, refused, misread = [], [], []
    for case in (case for case in cases if case.layout != "given"):
        if values.takes_too_long(trial, case):
            continue
        try:
            values.one(trial, case)
        except Failed as failure:
            if failure.code in _SERIOUS:
                raise
            if failure.code in _REFUSALS:
                refused.append(case.layout)
                continue
            misread.append(_described(trial, case, failure))
            if failure.code == "illegal_access":
                break  # the device is lost to this process
            continue
        followed.append(case.layout)
    for text in misread:
        trial.warn(f"only for contiguous inputs: {text}")
    if not (followed or refused or misread):
        return []
    listed = ", ".join([*followed, *(f"refuses {layout}" for layout in refused)])
    return [Check("other layouts", "warn" if misread else "pass", misread[0] if misread else f"{listed} inputs")]


def _described(trial: Trial, case: Case, failure: Failed) -> str:
    """Say what goes wrong, and why where that can be shown: the answer is right for what lies there."""
    article = "an" if case.layout[0] in "aeiou" else "a"
    if _as_if_contiguous(trial, case):
        return f"reads {article} {case.layout} input as if it were contiguous"
    return f"wrong for {article} {case.layout} input: {failure.message.removeprefix(case.label + ': ')}"


def _as_if_contiguous(trial: Trial, case: Case) -> bool:
    """Whether the answer is right for what lies there; an output made with empty_like lies as its input does."""
    layout = case.layout + AS_STORED
    try:
        stored, outputs = trial.reference.expected(replace(case, layout=layout)), trial.call(case).outputs
    except (Failed, VerificationError):
        return False
    likewise = Tree(outputs.spec, tuple(relaid(layout, list(outputs.tensors))))
    return any(compare.compare(stored, seen) is None for seen in (outputs, likewise))
