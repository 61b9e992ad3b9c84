"""Is it faster? Only with a GPU, only after everything else, and only where the interval says so."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import torch

from verifier import roofline, timing
from verifier.children import Child
from verifier.nursery import Nursery
from verifier.trial import Failed, Trial
from verifier.verdict import Check

BUDGET = 0.4
SECONDS = 180.0


def check(
    trial: Trial, nursery: Nursery | None, baseline: str, waiting: Child | None = None
) -> Iterator[Check]:
    """Measure in a child of its own (`waiting`, if one is); eager against the kernel first, torch.compile after it."""
    if nursery is None:
        yield Check("speed", "skip", "not measured in this process")
        return
    request = {
        "kernel": trial.kernel, "entry": trial.problem.entry, "seed": trial.reference.init_seed,
        "parameter_seed": trial.reference.parameter_seed, "budget": BUDGET,
        "case": asdict(trial.reference.first_case), "baseline": baseline, "compiled": trial.scratch + "/triton",
    }  # fmt: skip
    for problem in dict.fromkeys((trial.problem, trial.reference.problem)):  # the full size, if it fits
        with waiting or nursery.spawn("verifier.stopwatch:serve") as child:
            waiting = None
            child.send({**request, "source": problem.source})
            got = _answer(child)
            if got.get("too_large"):
                trial.warn("timed on a smaller problem: the full size does not fit this GPU's memory")
                continue
            yield from _race(trial, got, child, baseline)
            return
    yield Check("speed", "skip", "the problem does not fit this GPU's memory a few times over")


def _race(trial: Trial, got: dict[str, Any], child: Child, baseline: str) -> Iterator[Check]:
    if "times" not in got:
        raise Failed(got.get("code", "runtime_error"), f"while it is timed: {got.get('message', '')}")
    name = torch.cuda.get_device_name()
    _honest(trial, got, name)
    samples = timing.Samples(got["times"], got["late"])
    kernel_ms = samples.median("kernel")
    share = roofline.share(kernel_ms, got["moved"], got["flops"], got["precision"], name)
    trial.timing = timing.summarise(samples, share)
    if got["power"]:
        trial.warn(got["power"])
    yield Check("speed", "pass", timing.in_words(trial.timing))
    if baseline in ("compile", "both"):
        yield _compiled(trial, _answer(child))


def _answer(child: Child) -> dict[str, Any]:
    got = child.receive(SECONDS)
    if got is None:
        ended = child.channel.ended
        raise Failed("crash" if ended else "timeout", "while it is timed, the process " + (
            f"ends ({child.kill()})" if ended else f"does not finish within {SECONDS:.0f} s"
        ), child.output())  # fmt: skip
    return got


def _honest(trial: Trial, got: dict[str, Any], name: str) -> None:
    """What was returned while the clock ran must be what was verified; nothing may run on behind it."""
    samples = timing.Samples(got["times"], got["late"])
    late = timing.went_on(samples, "kernel")
    if late:
        raise Failed("cheat", f"side_stream: {late}")
    impossible = roofline.impossible(samples.median("kernel"), got["written"], name)
    if impossible:
        raise Failed("cheat", f"impossible_speed: {impossible}")
    if trial.reference.random or not got["samples"]:  # other random numbers, or inputs that do not compare equal
        trial.warn("what the kernel returns while it is timed could not be compared")
        return
    for seen in got["samples"]:
        if not _alike(got["expected"], seen):
            raise Failed("cheat", "lazy_output: what it returns while it is timed is not what the module returns")


def _alike(known: list[float], seen: list[float]) -> bool:
    """Equal up to what atomics and autotuning may change."""
    if len(known) != len(seen):
        return False
    size = max((abs(value) for value in known if math.isfinite(value)), default=0.0)
    return all(
        one == other or (math.isnan(one) and math.isnan(other)) or abs(one - other) <= 2e-2 * size
        for one, other in zip(known, seen, strict=True)
    )


def _compiled(trial: Trial, got: dict[str, Any]) -> Check:
    if "times" not in got or trial.timing is None:
        return Check("torch.compile", "skip", f"torch.compile cannot do this module ({got.get('failed', '')})")
    samples = timing.Samples(got["times"], got["late"])
    trial.timing = timing.with_compile(trial.timing, samples)
    ratio = samples.median("compile") / samples.median("kernel")
    return Check("torch.compile", "pass", f"{ratio:.2f}x against torch.compile")
