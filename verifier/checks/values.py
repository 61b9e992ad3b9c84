"""Does it return what the module returns? Structure, shape, dtype and values, then other seeds, values and sizes."""

from __future__ import annotations

import time
from collections import Counter

from verifier import compare
from verifier.cases import Case
from verifier.trial import Call, Failed, Trial
from verifier.verdict import Check

LESS_EXACT = 10.0
"""Times PyTorch's own largest error from which on the person is told, where --precision fast lets it pass."""

PATIENCE = 10.0
"""Seconds that the interpreter may spend on other sizes: a convolution in three dimensions takes minutes otherwise."""


def first(trial: Trial) -> Check:
    """Run the given inputs and judge everything that comes back."""
    case = trial.reference.first_case
    began = time.monotonic()
    trial.first = trial.call(case, races=True, trace=True)
    trial.first_seconds = time.monotonic() - began
    judge(trial, case, trial.first)
    trial.accuracy = compare.accuracy(trial.reference.expected(case), trial.first.outputs)
    detail = "matches the float64 oracle"
    if trial.accuracy is not None:
        detail = f"largest error {trial.accuracy.max_rel:.1e} (eager's own {trial.accuracy.eager_max_rel:.1e})"
        if trial.accuracy.max_rel > LESS_EXACT * max(trial.accuracy.eager_max_rel, 1e-7):
            trial.warn(f"less exact than PyTorch, as --precision fast allows: {detail}")
    return Check("values", "pass", detail)


def others(trial: Trial, cases: list[Case]) -> list[Check]:
    """Run the variations of values; the first of them with the programs in reversed order."""
    as_given = [case for case in cases if (case.sizes, case.layout) == ("given", "given")]
    same = [case for case in as_given if case != trial.reference.first_case]
    for number, case in enumerate(same):
        try:
            one(trial, case, reverse=trial.cpu and number == 0)
        except Failed as failure:
            if case.values != "tiny" or failure.code != "precision_downgrade":
                raise
            trial.warn(failure.message)  # cancellation near zero: inexact, but hardly what anybody would call wrong
    return [Check("other values", "pass", _listed(same))] if same else []


def sizes(trial: Trial, cases: list[Case]) -> list[Check]:
    """Run the variations of sizes, as far as patience goes."""
    others = [case for case in cases if case.sizes != "given"]
    refused, resized, untried = [], [], []
    began = time.monotonic()
    for case in others:
        if takes_too_long(trial, case) or (trial.cpu and time.monotonic() - began > PATIENCE):
            untried.append(case.label)
            continue
        resized.append(case)
        try:
            one(trial, case)
        except Failed as failure:
            refused += [_at_other_sizes(failure, case)]
    for text in refused:
        trial.warn(text)
    too_much = [f"too much to interpret: {', '.join(untried)}"] if untried else []
    listed = "; ".join([*([_listed(resized)] if resized else []), *too_much])
    row = Check("other sizes", "warn" if refused else "pass", refused[0] if refused else listed)
    return [row] if others else []


def takes_too_long(trial: Trial, case: Case) -> bool:
    """Whether the interpreter would need most of its time for so much more: it would look like a kernel that hangs."""
    if not trial.cpu:
        return False
    more = _elements(trial, case) / max(_elements(trial, trial.reference.first_case), 1)
    return trial.first_seconds * more > trial.seconds / 3


def _elements(trial: Trial, case: Case) -> int:
    expected = trial.reference.expected(case)
    return sum(t.numel() for t in expected.given) + sum(known.eager.numel() for known in expected.outputs.truths)


def one(trial: Trial, case: Case, reverse: bool = False) -> None:
    """Run and judge one case; a wrong result in reversed program order alone is a race."""
    try:
        call = trial.call(case, races=True, reverse=reverse)
        _still_launches(trial, case, call)
        judge(trial, case, call)
    except Failed as failure:
        if reverse and failure.code in ("value_mismatch", "nan_output", "runtime_error", "input_mutation"):
            judge(trial, case, trial.call(case))
            raise Failed(
                "race", f"the result depends on the order in which programs run: reversed, {failure.message}"
            ) from failure
        raise


def _still_launches(trial: Trial, case: Case, call: Call) -> None:
    """A candidate whose kernels did the work for the first inputs has them do it for others."""
    if trial.first is None or not trial.first.launches or not any(tensor.numel() for tensor in call.outputs.tensors):
        return
    given = (case.sizes, case.layout) == ("given", "given")
    if not call.launches and given:
        raise Failed("cheat", f"cached_result: no kernel is launched for {case.label}")
    everything = Counter(trial.reference.ops)
    if everything and not everything - Counter(call.answer["ops"]) and everything - Counter(trial.first.answer["ops"]):
        if given:
            raise Failed("cheat", f"torch_fallback: every operation of the module runs in PyTorch for {case.label}")
        trial.warn(f"{case.label}: PyTorch computes it")
    elif not call.launches:
        trial.warn(f"{case.label}: no kernel is launched, PyTorch computes it")


def judge(trial: Trial, case: Case, call: Call) -> None:
    """Compare everything that came back from a call with what the module gives."""
    expected = trial.reference.expected(case)
    finding = compare.compare(expected, call.outputs)
    if finding is not None:
        _blame_the_cache(trial, case, call)
    finding = finding or compare.compare_inputs(expected, call.inputs) or compare.compare_state(expected, call.state)
    if finding is not None:
        label = "" if case == trial.reference.first_case else f"{case.label}: "
        raise Failed(finding.code, label + finding.message)


def _blame_the_cache(trial: Trial, case: Case, call: Call) -> None:
    """Name a wrong result that is the first call's, bit for bit."""
    known = trial.first
    if known is None or call is known or case == trial.reference.first_case:
        return
    count = len(call.outputs.tensors)
    if count and call.blobs[:count] == known.blobs[:count]:
        raise Failed("cheat", "cached_result: a later call with other inputs returns the first call's result")


def _at_other_sizes(failure: Failed, case: Case) -> str:
    """Wrong numbers at another size fail the kernel; a kernel that refuses the size is only less general."""
    if failure.code in ("runtime_error", "signature_mismatch"):
        return f"only for the sizes given: {case.label}: {failure.message}"
    if failure.code in ("value_mismatch", "nan_output", "shape_mismatch", "precision_downgrade"):
        raise Failed("wrong_for_other_sizes", f"right for the sizes given, wrong for others: {failure.message}")
    raise Failed(failure.code, f"{case.label}: {failure.message}", failure.trace)


def _listed(cases: list[Case]) -> str:
    return ", ".join(case.label for case in cases)
