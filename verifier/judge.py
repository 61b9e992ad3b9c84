"""The order of the checks, and the verdict. Runs where the reference is: in the warm worker or the caller's process."""

from __future__ import annotations

import secrets
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch

from verifier import findings
from verifier.beside import Awaited, Baton, InTurn, Lane, Later
from verifier.checks import (
    constructions,
    gpu,
    layouts,
    loads,
    parses,
    renewed,
    repeats,
    sanitizer,
    second_look,
    speed,
    triton_work,
    undefined,
    values,
)
from verifier.children import Limits
from verifier.containment import InProcess
from verifier.errors import VerificationError
from verifier.excuses import Excuses
from verifier.known import Known
from verifier.nursery import Nursery
from verifier.problem import Problem
from verifier.processors import ENOUGH, processors
from verifier.ready import Ready
from verifier.tolerance import Precision
from verifier.trial import CannotVerify, Failed, Process, Trial
from verifier.truth import Reference
from verifier.verdict import Check, Verdict, VerdictOutcome

LOAD_SECONDS = {"cpu": 20.0, "cuda": 60.0}
CALL_SECONDS = {"cpu": 25.0, "cuda": 120.0}
COMPILE_LIMITS = Limits(memory=4 << 30, cpu_seconds=120)


@dataclass(frozen=True)
class Settings:
    """How to verify. Without a nursery the candidate runs in this process."""

    device: str = "auto"
    seed: int | None = None
    speed: bool = True
    baseline: str = "both"
    precision: Precision = "exact"
    sanitize: str = ""  # what of compute-sanitizer is wanted: memcheck, racecheck or both
    seconds: float = 0.0  # for one call, where the usual patience is not wanted
    beside: bool | None = None  # further children of a candidate at the same time; None: where that is a gain


class Judge:
    """Holds the reference of the last problem, and judges candidates one at a time."""

    def __init__(self, nursery: Nursery | None) -> None:
        self._nursery = nursery
        self._excuses = Excuses(nursery)
        self._ready = Ready(nursery) if nursery is not None else None
        self._second: Judge | None = None  # the one without a GPU, once it was needed
        self._known: tuple[tuple[Any, ...], Known] | None = None

    def judge(self, problem: Problem, kernel: str, settings: Settings) -> Iterator[Check | Verdict]:
        """Yield each check as it is made and the verdict last; raise VerificationError when the problem is at fault."""
        began = time.monotonic()
        device = device_of(settings.device)
        made: list[Check] = []
        verdict = Verdict("pass", device=device_name(device))
        with ExitStack() as stack:
            trial: list[Trial] = []
            try:
                for check in self._checks(problem, kernel, settings, device, stack, trial):
                    made[:] = [row for row in made if row.name != check.name]  # measured again: the later one counts
                    made.append(check)
                    yield check
            except Failed as failure:
                excuse = self._excuses.find(failure, trial[0]) if trial else None
                code, message = (excuse.code, excuse.message) if excuse else (failure.code, failure.message)
                outcome: VerdictOutcome = "cannot_verify" if excuse else "fail"
                verdict = replace(verdict, outcome=outcome, code=code, message=message, trace=failure.trace)
            except CannotVerify as why:
                verdict = replace(verdict, outcome="cannot_verify", code=why.code, message=why.message)
        if verdict.outcome == "fail":
            made.append(Check(findings.row(verdict.code), "fail", verdict.message))
            yield made[-1]
        if trial:
            verdict = findings.with_findings(verdict, trial[0])
        message = verdict.message or findings.praise(verdict)
        yield replace(verdict, checks=tuple(made), message=message, seconds=time.monotonic() - began)

    def _checks(
        self, problem: Problem, kernel: str, settings: Settings, device: str, stack: ExitStack, kept: list[Trial]
    ) -> Iterator[Check]:
        yield parses.check(kernel)
        _require_triton()
        process, compiler = self._start(problem, kernel, settings, device, stack)
        known = self.know(problem, device, settings.seed, settings.precision)
        patience = settings.seconds or LOAD_SECONDS[device]
        trial = Trial(problem, kernel, known.reference, process, compiler, device, patience)
        kept.append(trial)
        trial.warnings.extend(known.reference.warnings)
        if shrunk := known.reference.shrunk:
            why = "for the interpreter" if trial.cpu else "to compare every number; timed at full size"
            trial.warn(f"verified on a smaller problem, {why}: {shrunk}")
            yield Check("size", "warn" if trial.cpu else "pass", shrunk)
        clocks = self._clocks(trial, settings, stack)
        yield from loads.check(trial, contained=self._nursery is not None)
        trial.seconds = settings.seconds or CALL_SECONDS[device]
        yield values.first(trial)
        assert trial.first is not None
        if compiler is not None:
            compiler.feed(trial.first.launches)
        lanes = self._beside(trial, known, settings, stack)
        others = self._others(known, *(lanes or (InTurn(trial), InTurn(trial))))
        yield triton_work.check(trial)
        yield undefined.check(trial) if trial.cpu else second_look.guarded()
        yield from self._variations(trial, known, others, beside=lanes is not None)
        if trial.cpu:
            yield gpu.check(trial)
        elif clocks is not None:
            yield clocks.quick()
            if clocks.compiling:  # which takes a while: time for what is too slow to wait for otherwise
                yield second_look.check(trial, self._interpreted(problem, kernel, settings))
            yield from clocks.whole()
        elif self._nursery is not None:  # nobody waits for a measurement: everything is looked at
            yield second_look.check(trial, self._interpreted(problem, kernel, settings))
        elif settings.speed:
            yield Check("speed", "skip", "not measured in this process")
        if settings.sanitize:  # last: while it runs nothing can be measured
            yield sanitizer.check(trial, self._nursery, settings.sanitize)

    def _variations(
        self, trial: Trial, known: Known, others: tuple[Later, Later, Later], beside: bool
    ) -> Iterator[Check]:
        """Try other values, sizes, calls and builds: in the same order, whoever makes them."""
        resized, relaid, built = others
        yield from values.others(trial, known.admitted())
        repeated = Later(lambda here: [repeats.check(here), *renewed.check(here, known.renewed())], trial)
        if beside:
            repeated.make()
        for later in (resized, repeated, relaid, built):  # strange inputs after everything that decides
            yield from later.rows(trial)

    def _others(self, known: Known, one: Lane | InTurn, other: Lane | InTurn) -> tuple[Later, Later, Later]:
        """Have other sizes, layouts and builds tried."""
        variations = known.admitted
        resized = one.do(lambda there: values.sizes(there, variations()))
        relaid = other.do(lambda there: layouts.check(there, variations()))
        return resized, relaid, other.do(lambda there: constructions.check(there, known.built_otherwise()))

    def _beside(self, trial: Trial, known: Known, settings: Settings, stack: ExitStack) -> tuple[Lane, Lane] | None:
        """Start two further children of the candidate, where that is a gain; they take over what it compiled."""
        if self._ready is None or not _beside_wanted(settings):
            return None
        for case in known.admitted():
            known.reference.expected(case)  # by this thread: pasted code may have set what only holds here
        known.built_otherwise()
        baton = Baton()
        trial.process = Awaited(trial.process, baton)

        def ready(there: Trial) -> None:
            list(loads.check(there))
            values.one(there, known.reference.first_case)  # what a candidate keeps from its first call must be there

        lanes = [Lane(trial, self._ready.contained(trial.device), ready, baton) for _ in range(2)]
        for lane in lanes:
            stack.callback(lane.close)
        return lanes[0], lanes[1]

    def _interpreted(self, problem: Problem, kernel: str, settings: Settings) -> Generator[Check | Verdict, None, None]:
        """Judge the same kernel without the GPU."""
        self._second = self._second or Judge(self._nursery)
        yield from self._second.judge(problem, kernel, replace(settings, device="cpu", speed=False))

    def _start(
        self, problem: Problem, kernel: str, settings: Settings, device: str, stack: ExitStack
    ) -> tuple[Process, gpu.Compiler | None]:
        """Start the children first, so that they work while the reference is computed."""
        if self._nursery is None:
            process: Process = InProcess(device)
            stack.callback(process.close)
            return process, None
        assert self._ready is not None
        contained = self._ready.contained(device)
        stack.callback(contained.close)
        if device != "cpu":
            return contained, None
        child = self._nursery.spawn("verifier.gpu_compile:serve", limits=COMPILE_LIMITS)
        stack.callback(child.close)
        return contained, gpu.Compiler(child, kernel)

    def _clocks(self, trial: Trial, settings: Settings, stack: ExitStack) -> speed.Clocks | None:
        """Let the clocks make the problem ready meanwhile, where there will be something to measure."""
        if trial.cpu or not settings.speed or self._nursery is None:
            return None
        assert self._ready is not None
        waiting = self._ready.clocks()
        for child in waiting.values():
            stack.callback(child.close)
        return speed.Clocks(trial, self._nursery, settings.baseline, stack, waiting)

    def prepare(self, settings: Settings) -> None:
        """Have children ready for the next candidate: on a GPU opening the device is most of a short verification."""
        if self._ready is None or settings.device == "cpu" or not torch.cuda.is_available():
            return
        clocks = speed.needed(settings.baseline) if settings.speed else ()
        self._ready.prepare(_beside_wanted(settings), clocks, reference=self._known is None)

    def know(self, problem: Problem, device: str, seed: int | None, precision: Precision = "exact") -> Known:
        """Load the problem, made small enough for the device, unless it is the last one."""
        key = (problem.source, problem.entry, device, seed, precision)
        if self._known is None or self._known[0] != key:
            self._known = None  # free the last one first
            secret = seed if seed is not None else secrets.randbits(48)  # nobody can prepare answers for it
            reference = Reference.open(problem, device, secret, precision=precision)
            self._known = key, Known(reference)
        return self._known[1]


def device_of(wanted: str) -> str:
    """Return cpu or cuda; raise VerificationError when a GPU is asked for and there is none."""
    if wanted == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if wanted != "auto":
        raise VerificationError("no_gpu", f"there is no usable GPU for --device {wanted}", "leave the option out")
    return "cpu"


def _beside_wanted(settings: Settings) -> bool:
    return processors() >= ENOUGH if settings.beside is None else settings.beside


def _require_triton() -> None:
    """Refuse to judge where the language is missing: that is no fault of the kernel."""
    try:
        import triton  # noqa: F401
    except ImportError as fault:
        message = f"Triton cannot be imported here ({fault}): pip install triton"
        raise CannotVerify("missing_package", message) from fault


def device_name(device: str) -> str:
    """Return how the verdict names the device."""
    return "cpu (interpreter)" if device == "cpu" else torch.cuda.get_device_name()
