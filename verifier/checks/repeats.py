"""Does it go on giving the same answer? Many calls on one instance show noise, laziness and old results."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import Any

import torch

from verifier.cases import derive
from verifier.errors import VerificationError
from verifier.running import LEAST
from verifier.trial import Failed, Trial
from verifier.verdict import Check

TIMES = 16
SECONDS = 0.25


def check(trial: Trial) -> Check:
    """Call the first case again and again, then judge its values once more."""
    from verifier.checks import values

    case = trial.reference.first_case
    answer, _ = trial.ask({"do": "repeat", "case": asdict(case), "times": TIMES, "seconds": SECONDS}, calls=LEAST)
    digests, launched = answer["digests"], answer["launched"]
    if trial.first is not None and trial.first.launches and not all(launched):
        number = next(at for at, count in enumerate(launched) if not count) + 1
        raise Failed("cheat", f"cached_result: call {number} of the same inputs launches no kernel")
    for name in answer["counters"]:
        if not _keeps(trial.reference.model, name.removeprefix("the length of ")):
            raise Failed("cheat", f"call_counter: forward counts its calls ({name}): later ones may differ from these")
    values.one(trial, case)
    _in_the_same_memory(trial)
    if len(set(digests)) > 1:
        if trial.cpu:
            raise Failed("nondeterministic", "the same inputs, parameters and seed give different results")
        trial.warn("results differ from call to call within the tolerance (atomics?)")
        return Check("repeatable", "warn", f"{len(digests)} calls, not bit for bit")
    return Check("repeatable", "pass", f"{len(digests)} calls, bit for bit")


def _keeps(model: torch.nn.Module, place: str) -> bool:
    """Tell whether the module itself has what the candidate's instance keeps there, in a part of it or in itself."""
    steps = re.sub(r"_(?:modules|parameters|buffers)\['(.+?)'\]", r"\1", place).split(".")
    thing: Any = model
    for step in map(_bare, steps[1:]):
        if not isinstance(thing, (torch.nn.Module, torch.Tensor)):
            break
        if step == "grad" or not hasattr(thing, step):
            return False
        thing = getattr(thing, step)
    return steps[0] == "self"


def _bare(step: str) -> str:
    return re.split(r"\[|'s ", step)[0]


def _in_the_same_memory(trial: Trial) -> None:
    """Call twice on the same tensors with other values but at the corners, where a fingerprint would look."""
    from verifier.checks import values

    if trial.reference.degenerate:
        return
    first = replace(trial.reference.first_case, values="corners", label="changed in place")
    second = replace(first, seed=derive(first.seed, "in place"))
    try:
        trial.reference.expected(first), trial.reference.expected(second)
    except VerificationError:
        return  # the module takes no other values
    before = trial.call(first)
    after = trial.call(second, in_place=True)
    try:
        values.judge(trial, second, after)
    except Failed as failure:
        values.judge(trial, first, before)
        raise Failed("cheat", f"cached_result: inputs are taken for the last ones: {failure.message}") from failure
