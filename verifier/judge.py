"""The order of the checks, and the verdict. Runs where the reference is: in the warm worker or the caller's process."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch

from verifier import cases, gpu_warmup, literals
from verifier.checks import gpu, parameters, parses, repeats, triton_work, undefined, values
from verifier.children import Child, Limits
from verifier.containment import Contained, InProcess
from verifier.errors import VerificationError
from verifier.nursery import Nursery
from verifier.problem import Problem
from verifier.trial import Answer, CannotVerify, Failed, Process, Trial
from verifier.truth import Reference
from verifier.verdict import Check, Verdict

LOAD_SECONDS = {"cpu": 20.0, "cuda": 60.0}
CALL_SECONDS = {"cpu": 15.0, "cuda": 120.0}
CASE_SECONDS = 1.0
COMPILE_LIMITS = Limits(memory=4 << 30, cpu_seconds=120)


@dataclass(frozen=True)
class Settings:
    """How to verify. Without a nursery the candidate runs in this process."""

    device: str = "auto"
    seed: int | None = None
    speed: bool = True
    baseline: str = "both"


@dataclass
class Known:
    """A problem that is ready to judge with, kept for the next candidate."""

    problem: Problem
    reference: Reference
    shrunk: str
    literals: dict[int, int]
    cases: list[cases.Case]


class Judge:
    """Holds the reference of the last problem, and judges candidates one at a time."""

    def __init__(self, nursery: Nursery | None) -> None:
        self._nursery = nursery
        self._warm = False
        self._waiting: dict[str, Contained] = {}  # children that are ready before there is a candidate
        self._clock: Child | None = None
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
                    made.append(check)
                    yield check
            except Failed as failure:
                verdict = replace(
                    verdict, outcome="fail", code=failure.code, message=failure.message, trace=failure.trace
                )
            except CannotVerify as why:
                verdict = replace(verdict, outcome="cannot_verify", code=why.code, message=why.message)
        if verdict.outcome == "fail":
            made.append(Check(_row(verdict.code), "fail", verdict.message))
            yield made[-1]
        if trial:
            verdict = _with_findings(verdict, trial[0])
        message = verdict.message or _praise(verdict)
        yield replace(verdict, checks=tuple(made), message=message, seconds=time.monotonic() - began)

    def _checks(
        self, problem: Problem, kernel: str, settings: Settings, device: str, stack: ExitStack, kept: list[Trial]
    ) -> Iterator[Check]:
        yield parses.check(kernel)
        _require_triton()
        process, compiler = self._start(problem, kernel, settings, device, stack)
        known = self.know(problem, device, settings.seed)
        trial = Trial(problem, kernel, known.reference, process, compiler, device, LOAD_SECONDS[device])
        kept.append(trial)
        trial.warnings.extend(known.reference.warnings)
        if known.shrunk:
            why = "for the interpreter" if trial.cpu else "to compare every number; timed at full size"
            trial.warn(f"verified on a smaller problem, {why}: {known.shrunk}")
            yield Check("size", "warn" if trial.cpu else "pass", known.shrunk)
        yield from self._load(trial, known)
        trial.seconds = CALL_SECONDS[device]
        yield values.first(trial)
        assert trial.first is not None
        if compiler is not None:
            compiler.feed(trial.first.launches)
        yield triton_work.check(trial)
        yield (
            undefined.check(trial)
            if trial.cpu
            else Check("memory", "skip", "addresses are only traced by the interpreter")
        )
        if not known.cases:
            admitted = known.reference.cases(CASE_SECONDS)
            # where the result hardly depends on the inputs, other values only compare one rounding noise with another
            known.cases.extend(c for c in admitted if c.values == "given" or not known.reference.degenerate)
        yield from values.others(trial, known.cases)
        yield repeats.check(trial)
        if trial.cpu:
            yield gpu.check(trial)
        elif settings.speed:
            from verifier.checks import speed

            waiting, self._clock = self._clock, None
            yield from speed.check(trial, self._nursery, settings.baseline, waiting)

    def _start(
        self, problem: Problem, kernel: str, settings: Settings, device: str, stack: ExitStack
    ) -> tuple[Process, gpu.Compiler | None]:
        """Start the children first, so that they work while the reference is computed."""
        if self._nursery is None:
            process: Process = InProcess(device)
            stack.callback(process.close)
            return process, None
        self._warm_up(device)
        contained = self._waiting.pop(device, None) or Contained(self._nursery, device)
        stack.callback(contained.close)
        if device != "cpu":
            return contained, None
        child = self._nursery.spawn("verifier.gpu_compile:serve", limits=COMPILE_LIMITS)
        stack.callback(child.close)
        return contained, gpu.Compiler(child, kernel)

    def prepare(self, device: str) -> None:
        """Have a child ready for the next candidate: on a GPU opening the device is most of a short verification."""
        if self._nursery is not None and device_of(device) == "cuda" and "cuda" not in self._waiting:
            self._warm_up("cuda")
            self._waiting["cuda"] = Contained(self._nursery, "cuda")
            self._clock = self._clock or self._nursery.spawn("verifier.stopwatch:serve")
            if self._known is None:
                gpu_warmup.run_a_reference()

    def _warm_up(self, device: str) -> None:
        """Let Triton build its GPU helpers once, for all children to come."""
        if device == "cuda" and not self._warm and self._nursery is not None:
            with self._nursery.spawn("verifier.gpu_warmup:serve") as child:
                child.receive(LOAD_SECONDS["cuda"])
            self._warm = True

    def _load(self, trial: Trial, known: Known) -> Iterator[Check]:
        kernel = trial.kernel
        if known.literals:
            kernel = literals.rewritten_kernel(kernel, known.literals, trial.problem.source)
        request: Answer = {
            "do": "load",
            "device": trial.device,
            "kernel": kernel,
            "source": known.reference.problem.source,
            "seed": known.reference.init_seed,
        }
        answer, _ = trial.ask(request)
        trial.state, trial.scratch = answer["state"], str(answer["scratch"])
        for missing in answer["missing"]:
            trial.warn(missing)
        yield Check(
            "loads", "pass", "ModelNew is constructed" if self._nursery else "in this process, without protection"
        )
        yield parameters.check(trial)

    def know(self, problem: Problem, device: str, seed: int | None) -> Known:
        """Load the problem, made small enough for the device, unless it is the last one."""
        key = (problem.source, problem.entry, device, seed)
        if self._known is None or self._known[0] != key:
            self._known = None  # free the last one first
            secret = seed if seed is not None else secrets.randbits(48)  # nobody can prepare answers for it
            reference = Reference.open(problem, device, secret)
            self._known = key, Known(problem, reference, reference.shrunk, dict(reference.literals), [])
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


def _with_findings(verdict: Verdict, trial: Trial) -> Verdict:
    passed = verdict.outcome == "pass"
    return replace(
        verdict,
        warnings=tuple(trial.warnings),
        in_triton=trial.in_triton if passed else (),
        in_pytorch=trial.in_pytorch,
        timing=trial.timing if passed else None,
        accuracy=trial.accuracy,
    )


def _praise(verdict: Verdict) -> str:
    where = "PyTorch's own result on every check"
    return f"verified: matches {where}" + (f", with {len(verdict.warnings)} warnings" if verdict.warnings else "")


def _row(code: str) -> str:
    """Name the row of a failure."""
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
