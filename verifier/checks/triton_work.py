"""Did Triton do the work? Launches are traced, PyTorch's part is listed, and falsified results must show."""

from __future__ import annotations

from collections import Counter

from verifier import compare
from verifier.cases import Case, derive
from verifier.copies import COPY
from verifier.ops import heavy, moved
from verifier.trial import Call, Failed, Trial
from verifier.verdict import Check

SOME = 16  # numbers: below that it is sizes, offsets, a scale
_ATTEMPTS = 3  # a false sum near zero can lie within the tolerance of the right one, by chance
_LINES = frozenset("mul add sub div neg".split())
"""Operations that are a shift and a scale, with the right numbers."""


def check(trial: Trial) -> Check:
    """Compare the module's operations with those the candidate left to PyTorch, and prove that kernel results count."""
    call = trial.first
    assert call is not None
    reference, left = list(trial.reference.ops), list(call.answer["ops"])
    before, after = Counter(reference) - Counter(_moved(trial)), Counter(left)
    trial.in_triton = tuple(name for name in dict.fromkeys(reference) if before[name] > after[name])
    trial.in_pytorch = tuple(dict.fromkeys(left))
    if not any(tensor.numel() for tensor in call.outputs.tensors):
        return Check("in Triton", "pass", "nothing to compute: the result is empty")
    if not call.launches:
        raise Failed(
            "no_triton_kernel", f"no Triton kernel is launched; PyTorch does it all ({_names(trial.in_pytorch)})"
        )
    if reference and not before - after:
        raise Failed(
            "no_triton_kernel", f"every operation of the module still runs in PyTorch ({_names(trial.in_pytorch)})"
        )
    _results_count(trial, call)
    return Check("in Triton", "pass", _coverage(reference, before, after, trial))


def _results_count(trial: Trial, call: Call) -> None:
    """Run other inputs with falsified kernel results: if the answer is right all the same, nobody uses them."""
    if trial.reference.rounding_decides:  # a right answer proves nothing there
        trial.warn("that the kernels' results are used could not be shown on this problem")
        return
    for attempt in range(_ATTEMPTS):
        case = Case(derive(trial.reference.first_case.seed, f"falsified {attempt}"))
        expected = trial.reference.expected(case)
        try:
            false = trial.call(case, scramble=True)
        except Failed as failure:
            if failure.code == "cheat":
                raise
            _less_is_left(trial, call, fed=True)  # it stumbles over false values: it uses or only compares them
            return
        if compare.compare(expected, false.outputs) or compare.compare_inputs(expected, false.inputs):
            break
        if not any(tensor.any() for tensor in false.outputs.tensors):  # nothing stays nothing
            trial.warn("that the kernels' results are used could not be shown: the module's are zeros")
            return
    else:
        raise Failed("cheat", "kernel_result_unused: the result stays right when the kernels' results are falsified")
    _nothing_is_hidden(trial, call, false)
    _less_is_left(trial, call, fed=any(launch["fed"] for launch in false.launches))
    changes = {launch["changes"] for launch in false.launches}
    beyond = [name for name in trial.in_triton if name not in _LINES]
    if (changes == {COPY} and call.answer["ops"]) or (changes and "" not in changes and beyond):
        what = "copy" if changes == {COPY} else "shift and scale"
        done = f" ({_names(trial.in_pytorch)})" if trial.in_pytorch else ""
        raise Failed("cheat", f"kernel_result_unused: the kernels only {what} what PyTorch computed{done}")


def _moved(trial: Trial) -> list[str]:
    """Name the module's heavy operations that the candidate leaves to PyTorch by another name."""
    assert trial.first is not None
    reference, left = trial.reference, trial.first.answer
    wanted = list(zip(reference.ops, reference.costs, strict=True))
    return moved(wanted, list(zip(left["ops"], left["costs"], strict=True)))


def _less_is_left(trial: Trial, call: Call, *, fed: bool) -> None:
    """A kernel that finishes what other operations of PyTorch computed, with as much work, is none."""
    reference = trial.reference
    work = sum(reference.costs)
    if work and sum(call.answer["costs"]) >= work and len(call.answer["ops"]) >= len(reference.ops):
        text = "PyTorch does no less than in the module itself: "
        text += f"{_names(trial.in_pytorch)} for {_names(tuple(dict.fromkeys(reference.ops)))}"
        if fed:
            raise Failed("no_triton_kernel", text)
        trial.warn(text)


def _nothing_is_hidden(trial: Trial, call: Call, other: Call) -> None:
    """Numbers that depend on the inputs and were computed by nobody who was seen are hidden work."""
    if call.answer["taken_out"] >= SOME:
        raise Failed("cheat", "hidden_work: the values of a tensor are taken out of PyTorch (numpy, tolist)")
    fresh = set(call.answer["scalars"]) - set(other.answer["scalars"])
    if len(fresh) >= SOME:
        text = f"hidden_work: operations are given {len(fresh)} numbers that Python computed from the inputs"
        raise Failed("cheat", text)
    constant = {one["checksum"] for one in other.answer["unexplained"]}
    wanted = max((tensor.numel() for tensor in call.outputs.tensors), default=0)
    for one in call.answer["unexplained"]:
        enough = one["count"] >= SOME if one["floating"] else one["count"] >= max(SOME, wanted // 2)
        if enough and one["checksum"] not in constant:
            raise Failed(
                "cheat",
                f"hidden_work: {one['where']} has {one['count']} numbers that no kernel and no operation seen computed",
            )


def _coverage(reference: list[str], before: Counter[str], after: Counter[str], trial: Trial) -> str:
    wanted = heavy(reference)
    if wanted:
        done = sum((before - after)[name] for name in set(wanted))
        text = f"{done} of {len(wanted)} heavy ops"
    else:
        text = "all of it" if not trial.in_pytorch else f"{len(trial.in_triton)} of {len(set(reference))} kinds of ops"
    return text + (f"; {_names(trial.in_pytorch)} left to PyTorch" if trial.in_pytorch else "")


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") or "no operation at all"
