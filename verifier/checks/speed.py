"""Is it faster? Only with a GPU, only after everything else, and only where the interval says so."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import torch

from verifier import roofline, timing, turns
from verifier.checksums import difference
from verifier.children import Child
from verifier.nursery import Nursery
from verifier.problem import Problem
from verifier.trial import Failed, Trial
from verifier.verdict import Check

QUICK, WHOLE = 0.15, 0.4
"""Seconds of measuring: eager and the kernel alone, which is known at once; and with torch.compile, which compiles."""
QUICK_CLOCK, WHOLE_CLOCK = "verifier.stopwatch:serve", "verifier.stopwatch:serve_compiling"
SECONDS = 180.0
COMPILING = 300.0


class _Unmeasured(Exception):
    """There is no time to show, and the kernel is not at fault."""


class _TooLarge(_Unmeasured):
    def __init__(self) -> None:
        super().__init__("the problem does not fit this GPU's memory a few times over")


def needed(baseline: str) -> tuple[str, ...]:
    """Name the children that measure against this."""
    return (QUICK_CLOCK, WHOLE_CLOCK) if baseline in ("compile", "both") else (QUICK_CLOCK,)


class Clocks:
    """The children that measure one candidate. They make the problem ready while the candidate is being verified.

    The first measures eager and the kernel. Where torch.compile is wanted, a second one compiles the module meanwhile
    and then measures all three in one run, which replaces the first one's numbers.
    """

    def __init__(
        self, trial: Trial, nursery: Nursery, baseline: str, stack: ExitStack, waiting: Mapping[str, Child]
    ) -> None:
        self._trial, self._nursery, self._stack = trial, nursery, stack
        assert trial.reference.folder is not None
        self._caches = trial.reference.folder / "compiled"  # what torch.compile made of the module, for the next time
        self._problem = trial.problem
        self._quick = self._prepare(waiting.get(QUICK_CLOCK) or nursery.spawn(QUICK_CLOCK))
        self._whole: Child | None = None
        if WHOLE_CLOCK in needed(baseline):
            self._whole = self._prepare(waiting.get(WHOLE_CLOCK) or nursery.spawn(WHOLE_CLOCK))

    def _prepare(self, child: Child) -> Child:
        reference = self._trial.reference
        self._stack.callback(child.close)
        child.send({
            "source": self._problem.source, "entry": self._problem.entry, "seed": reference.init_seed,
            "parameter_seed": reference.parameter_seed, "case": asdict(reference.first_case),
            "caches": str(self._caches),
        })  # fmt: skip
        return child

    @property
    def compiling(self) -> bool:
        """Whether torch.compile is at work."""
        return self._whole is not None

    def quick(self) -> Check:
        """Return the speed against eager: known as soon as it is measured."""
        try:
            try:
                got = self._race(self._quick, QUICK)
            except _TooLarge:
                self._shrink()
                got = self._race(self._quick, QUICK)
        except _Unmeasured as why:
            self._whole = None
            return Check("speed", "skip", str(why))
        return self._judged(got)

    def whole(self) -> Iterator[Check]:
        """Yield the same once more with torch.compile in the run, where that is wanted; waits until it has compiled."""
        if self._whole is None:
            return
        try:
            got = self._race(self._whole, WHOLE)
        except _Unmeasured as why:
            yield Check("torch.compile", "skip", str(why))
            return
        yield self._judged(got)
        times = timing.Samples(got["times"])
        ratio = times.median("compile") / times.median("kernel")
        yield Check("torch.compile", "pass", f"{ratio:.2f}x against torch.compile, in the same run")

    def _shrink(self) -> None:
        """Turn to the smaller problem that was verified; raise _TooLarge where it is no smaller."""
        smaller: Problem = self._trial.reference.problem
        if smaller == self._problem:
            raise _TooLarge
        self._trial.warn("timed on a smaller problem: the full size does not fit this GPU's memory")
        self._problem = smaller
        self._quick = self._prepare(self._nursery.spawn(QUICK_CLOCK))
        if self._whole is not None:
            self._whole.close()
            self._whole = self._prepare(self._nursery.spawn(WHOLE_CLOCK))

    def _race(self, child: Child, budget: float) -> dict[str, Any]:
        """Hand the kernel over and return what was measured; raise _Unmeasured or Failed."""
        ready = child.receive(COMPILING)
        if ready is None or "unmeasured" in ready:
            what = "torch.compile" if child is self._whole else "the module itself"
            why = ready["unmeasured"] if ready else "the process ends" if child.channel.ended else "it does not end"
            raise _Unmeasured(f"{what} cannot be run here to be timed: {why}")
        if ready.get("too_large"):
            raise _TooLarge
        trial = self._trial
        child.send({"kernel": trial.kernel, "compiled": trial.scratch})
        got = child.receive(SECONDS)
        if got is not None and got.get("built"):
            with turns.alone():
                child.send({"budget": budget})
                got = child.receive(SECONDS)
        if got is None:
            ended = child.channel.ended
            how = f"ends ({child.kill()})" if ended else f"does not finish within {SECONDS:.0f} s"
            raise Failed("crash" if ended else "timeout", f"while it is timed, the process {how}", child.output())
        child.close()
        if got.get("too_large"):
            raise _TooLarge
        if "times" not in got:
            raise Failed(got.get("code", "runtime_error"), f"while it is timed: {got.get('message', '')}")
        return got

    def _judged(self, got: dict[str, Any]) -> Check:
        """Turn what one run measured into the trial's timing."""
        trial, name = self._trial, torch.cuda.get_device_name()
        _honest(trial, got, name)
        samples = timing.Samples(got["times"], got["late"])
        share = roofline.share(samples.median("kernel"), got["moved"], got["flops"], got["precision"], name)
        trial.timing = timing.summarise(samples, share)
        if got["power"]:
            trial.warn(got["power"])
        return Check("speed", "pass", timing.in_words(trial.timing))


def _honest(trial: Trial, got: dict[str, Any], name: str) -> None:
    """What was returned while the clock ran must be what was verified; nothing may run on behind it."""
    samples = timing.Samples(got["times"], got["late"])
    late = timing.went_on(samples, "kernel")
    if late:
        raise Failed("cheat", f"side_stream: {late}")
    impossible = roofline.impossible(samples.median("kernel"), got["written"], name)
    if impossible:
        raise Failed("cheat", f"impossible_speed: {impossible}")
    reference = trial.reference
    # other random numbers, results that are rounding noise, or inputs that do not compare equal
    if reference.random or reference.degenerate or not got["samples"]:
        trial.warn("what the kernel returns while it is timed could not be compared")
        return
    if wrong := difference(got["expected_sums"], got["sums"]):
        raise Failed("value_mismatch", f"at the size it is timed at: {wrong}")
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
