"""Did Triton do the work? Launches are traced, PyTorch's part is listed, and falsified results must show."""

from __future__ import annotations

from collections import Counter

from verifier import compare
from verifier.cases import Case, derive
from verifier.ops import heavy
from verifier.trial import Call, Failed, Trial
from verifier.verdict import Check


def check(trial: Trial) -> Check:
    """Compare the module's operations with those the candidate left to PyTorch, and prove that kernel results count."""
    call = trial.first
    assert call is not None
    reference, left = list(trial.reference.ops), list(call.answer["ops"])
    before, after = Counter(reference), Counter(left)
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
    case = Case(derive(trial.reference.first_case.seed, "falsified"))
    expected = trial.reference.expected(case)
    try:
        false = trial.call(case, scramble=True)
    except Failed as failure:
        if failure.code == "cheat":
            raise
        return  # it stumbled over the false values, so it uses them
    if not (compare.compare(expected, false.outputs) or compare.compare_inputs(expected, false.inputs)):
        raise Failed("cheat", "kernel_result_unused: the result stays right when the kernels' results are falsified")
    copies = [launch["copies"] for launch in false.launches]
    if copies and all(copies) and call.answer["ops"]:
        raise Failed(
            "cheat", f"kernel_result_unused: the kernels only copy what PyTorch computed ({_names(trial.in_pytorch)})"
        )


def _coverage(reference: list[str], before: Counter[str], after: Counter[str], trial: Trial) -> str:
    wanted = heavy(reference)
    if wanted:
        left = sum(min(before[name], after[name]) for name in set(wanted))
        text = f"{len(wanted) - left} of {len(wanted)} heavy ops"
    else:
        text = "all of it" if not trial.in_pytorch else f"{len(trial.in_triton)} of {len(set(reference))} kinds of ops"
    return text + (f"; {_names(trial.in_pytorch)} left to PyTorch" if trial.in_pytorch else "")


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") or "no operation at all"
