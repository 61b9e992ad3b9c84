"""The reference: what the pasted module returns, in its own dtype and in float64, and which cases it admits.

Pasted code runs here, so a Reference lives in a child process, and never in the one that runs the candidate.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from verifier import admission, cases, chance, degenerate, turns
from verifier.cases import Case
from verifier.compare import Expectation, Expected
from verifier.errors import VerificationError, reference_failed
from verifier.limits import limits_for
from verifier.literals import rewritten_kernel
from verifier.ops import record
from verifier.oracle import ROUNDING, TF32_ROUNDING, Disturbance, run_wide, twin, wide_copy
from verifier.problem import Problem
from verifier.shrink import FAILS, GOOD, POOR, shrink
from verifier.tolerance import Precision, Truth, truth, untouched
from verifier.tree import Tree, flatten, map_tensors, signature

TF32_SHOWS = 2e-5
"""Share of the largest result: TF32's errors are ten times as large or more, those of float32 a tenth or less."""
PROBE_LIMIT = 2**27  # elements of parameters and inputs beyond which a third run costs more than it tells


@dataclass(frozen=True)
class Run:
    """One forward: what came back, and the inputs and the buffers as the call left them."""

    outputs: Tree
    inputs: Tree
    state: Tree


@dataclass
class Reference:
    """A loaded problem with seeded, randomised parameters; `expected` answers for any case it admits.

    `shrunk` says from what to what the problem was shrunk, and is empty where it was not; `kernel_text` gives a
    kernel's text as it must be run against it.
    """

    problem: Problem
    device: str = "cpu"
    seed: int = 0
    folder: Path | None = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    ops: tuple[str, ...] = ()
    costs: tuple[int, ...] = ()  # elements touched and multiply-adds, of each of them
    random: bool = False
    changes_parameters: bool = False
    shrunk: str = ""
    literals: Mapping[int, int] = field(default_factory=dict)
    look: bool = True  # run it under observation at once
    training: bool | None = None  # the mode to put it in; as constructed where it is None
    precision: Precision = "exact"
    draw: int = 0  # which of the possible parameters

    @classmethod
    def open(
        cls,
        problem: Problem,
        device: str = "cpu",
        seed: int = 0,
        folder: Path | None = None,
        precision: Precision = "exact",
    ) -> Reference:
        """Load a problem, shrunk if it is too large to interpret; raise VerificationError."""
        made: list[Reference] = []

        def works(smaller: Problem) -> int:
            try:
                made.append(cls(smaller, device, seed, folder, precision=precision))
            except VerificationError:
                return FAILS
            return POOR if made[-1].degenerate else GOOD

        comfortable, acceptable = limits_for(device)
        small = shrink(problem, works, comfortable=comfortable, acceptable=acceptable)
        found = next((one for one in reversed(made) if one.problem == small.problem), None)
        reference = found or cls(small.problem, device, seed, folder, precision=precision)
        reference.shrunk, reference.literals = small.text, small.literals
        return reference

    def kernel_text(self, source: str) -> str:
        """Return a kernel's text as it must be run against the problem as it is here."""
        return rewritten_kernel(source, self.literals, self.problem.source) if self.literals else source

    @property
    def degenerate(self) -> bool:
        """True where the problem proves little."""
        return any("degenerate" in warning for warning in self.warnings)

    @property
    def rounding_decides(self) -> bool:
        """True where PyTorch's own result is so far off that almost any answer is right."""
        return any(degenerate.DECIDES in warning for warning in self.warnings)

    def __post_init__(self) -> None:
        self._kept: tempfile.TemporaryDirectory[str] | None = None
        if self.folder is None:
            self._kept = tempfile.TemporaryDirectory(prefix="kernelllm-")
            self.folder = Path(self._kept.name)
        self.path = self.folder / "pasted_module.py"
        self.module = cases.load(self.problem.source, self.path)
        self.model = cases.construct(self.module, self.problem.entry, self.init_seed, self.device)
        if self.training is not None:
            self.model.train(self.training)
        cases.randomise(self.model, self.parameter_seed)
        self.dtype = self._dtype()
        self._answers: dict[Case, Expected] = {}
        self._wide = True
        self.rounding = 0.0  # the coarsest of the module's own steps, which may be coarser than its parameters
        if self.look:
            self._look()

    @property
    def init_seed(self) -> int:
        """Seed for the constructor, on both sides."""
        return cases.derive(self.seed, "init")

    @property
    def parameter_seed(self) -> int:
        """Seed for `cases.randomise`, on both sides."""
        return cases.derive(self.seed, "parameters", *([self.draw] if self.draw else []))

    @property
    def first_case(self) -> Case:
        """The given inputs, first seed."""
        return Case(cases.derive(self.seed, "case", 0))

    def cases(self, budget: float = 2.0) -> list[Case]:
        """List the cases this problem admits, most telling first, found by trying within `budget` seconds."""
        return admission.admitted(self, budget)

    def expected(self, case: Case) -> Expected:
        """Return what the module gives for a case; raise VerificationError."""
        if case not in self._answers:
            self._answers[case] = self._answer(case)
        return self._answers[case]

    def forget(self) -> None:
        """Free the answers kept so far."""
        self._answers.clear()

    def _look(self) -> None:
        """Run once under observation: operations, random numbers, repeatability."""
        case = self.first_case
        given = cases.build_inputs(self.module, case, self.device)
        kept = cases.clone(given)
        versions = [parameter._version for parameter in self.model.parameters()]
        first, seen = record(lambda: self._run(case, cases.clone(given)))
        self.ops, self.costs = tuple(seen.names), tuple(seen.costs)
        self.rounding = max((ROUNDING.get(dtype, 0.0) for dtype in seen.dtypes), default=0.0)
        after = self._random_state
        cases.seed_all(cases.forward_seed(case))
        drew = self._host != chance.generators()
        self.random = drew or not all(map(torch.equal, after, self._generators()))
        again = self._run(case, given)
        same = first.outputs.spec == again.outputs.spec
        if not same or not all(map(_same, first.outputs.tensors, again.outputs.tensors)):
            if not same or not all(map(_apart_by_rounding, first.outputs.tensors, again.outputs.tensors)):
                raise VerificationError(
                    "nondeterministic_reference",
                    "the module gives two answers for the same inputs, parameters and seed",
                    "remove what changes from call to call (time, an unseeded generator, kept state)",
                )
            self.warnings.append("PyTorch's own result changes from call to call, by rounding alone (atomics)")
        if self._takes_tf32(kept, first):
            self.rounding = max(self.rounding, TF32_ROUNDING)
            self.notes.append("PyTorch itself computes with TF32 here: its convolutions may, unless told not to")
        self.changes_parameters = [p._version for p in self.model.parameters()] != versions
        if self.random:
            self.warnings.append("forward draws random numbers: a kernel must draw the same ones, in the same way")
        self.warnings.extend(degenerate.warnings(self))

    def _takes_tf32(self, given: Any, usual: Run) -> bool:
        """Tell whether TF32 has a part in the module's result, by forbidding it: for which shapes cuDNN decides.

        A kernel that calls the same convolutions on inputs apart by one rounding is apart by TF32's in the end.
        """
        if not (self._may_take_tf32() and torch.float32 in {t.dtype for t in usual.outputs.tensors}):
            return False
        with _without_tf32():
            exact = self._run(self.first_case, given)
        return any(map(_apart_by_tf32, usual.outputs.tensors, exact.outputs.tensors))

    def _may_take_tf32(self) -> bool:
        return self.device.startswith("cuda")

    def _answer(self, case: Case) -> Expected:
        given = cases.build_inputs(self.module, case, self.device)
        before = flatten(cases.clone(given))
        runs: list[Run | None] = [self._run(case, cases.clone(given)), self._widened(case, given, None)]
        elements = sum(t.numel() for t in [*before.tensors, *self.model.parameters()])
        probes = 0 if runs[1] is None or elements > PROBE_LIMIT else 2 if elements < PROBE_LIMIT // 128 else 1
        runs += [self._widened(case, given, case.seed + number) for number in range(probes)]
        assert runs[0] is not None
        pairs = zip(before.tensors, runs[0].inputs.tensors, strict=True)
        changed = tuple(n for n, (old, new) in enumerate(pairs) if not _same(old, new))
        return Expected(
            outputs=_expectation("output", [run.outputs if run else None for run in runs], self.precision),
            inputs=_expectation("input", [run.inputs if run else None for run in runs], self.precision, changed),
            state=_expectation("state", [run.state if run else None for run in runs], self.precision),
            given=before.tensors,
            changed=changed,
        )

    def _run(self, case: Case, inputs: Any) -> Run:
        """Call a fresh copy of the module on inputs that are its own."""
        args, kwargs = inputs
        model = twin(self.model, widen=False)
        try:
            with turns.shared_on(self.device), cases.no_stdin(), torch.no_grad():
                cases.seed_all(cases.forward_seed(case))
                outputs = model(*args, **kwargs)
                self._random_state, self._host = self._generators(), chance.generators()
                if self.device.startswith("cuda"):
                    torch.cuda.synchronize()
        except (Exception, SystemExit) as error:
            raise reference_failed(error, str(self.path), f"forward({signature(args, kwargs)})") from error
        return Run(flatten(outputs), flatten((args, kwargs)), flatten(cases.buffers(model)))

    def _generators(self) -> list[Tensor]:
        """Return the state of the random numbers, which tells whether any were drawn."""
        states = [torch.get_rng_state()]
        return [*states, torch.cuda.get_rng_state()] if self.device.startswith("cuda") else states

    def _widened(self, case: Case, given: Any, disturb: int | None) -> Run | None:
        """Run in float64; a module that cannot is judged by its own dtype alone, and the person is told."""
        if not self._wide:
            return None
        try:
            args, kwargs = map_tensors(wide_copy, given)
            model = twin(self.model, widen=True)
            tensors = [*flatten((args, kwargs)).tensors, *model.parameters()]
            cases.seed_all(cases.forward_seed(case))
            fast = TF32_ROUNDING if self.precision == "fast" and self.dtype == torch.float32 else 0.0
            rounding = max(fast, self.rounding, ROUNDING.get(self.dtype, 0.0))
            noise = None if disturb is None else Disturbance(tensors, disturb, rounding or None)
            with turns.shared_on(self.device), cases.no_stdin():
                outputs = run_wide(lambda: model(*args, **kwargs), self.dtype, noise)
            return Run(flatten(outputs), flatten((args, kwargs)), flatten(cases.buffers(model)))
        except Exception as error:
            self._wide = False
            self.notes.append(f"no float64 oracle ({type(error).__name__}): PyTorch's own result is the yardstick")
            return None

    def _dtype(self) -> torch.dtype:
        """The floating point type the problem works in."""
        inputs = flatten(cases.build_inputs(self.module, self.first_case)).tensors
        found = [t.dtype for t in [*inputs, *self.model.parameters()] if t.is_floating_point()]
        return found[0] if found else torch.float32


def _expectation(
    root: str, runs: Sequence[Tree | None], precision: Precision, changed: tuple[int, ...] | None = None
) -> Expectation:
    """Join the eager, wide and disturbed runs; with `changed` given, all other tensors must come back untouched."""
    eager, *others = runs
    assert eager is not None
    wide, *disturbed = [tree if tree and len(tree.tensors) == len(eager.tensors) else None for tree in others]
    truths: list[Truth] = []
    for number, value in enumerate(eager.tensors):
        if changed is not None and number not in changed:
            truths.append(untouched(value))
        else:
            oracle = wide.tensors[number] if wide else None
            truths.append(truth(value, oracle, [tree.tensors[number] for tree in disturbed if tree], precision))
    return Expectation(eager.spec, tuple(truths), root)


@contextmanager
def _without_tf32() -> Iterator[None]:
    """Forbid TF32 where it may be taken: in products and in convolutions."""
    places: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    allowed = [place.allow_tf32 for place in places]
    try:
        for place in places:
            place.allow_tf32 = False
        yield
    finally:
        for place, before in zip(places, allowed, strict=True):
            place.allow_tf32 = before


def _apart_by_tf32(one: Tensor, other: Tensor) -> bool:
    """Whether two results of the same float32 operations are farther apart than other orders of additions make them."""
    if one.shape != other.shape or one.dtype != torch.float32 or not one.numel():
        return False
    return bool((one.double() - other.double()).abs().max() > TF32_SHOWS * other.double().abs().max())


def _same(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(((one == other) | ((one != one) & (other != other))).all())


def _apart_by_rounding(one: Tensor, other: Tensor) -> bool:
    """Whether two results differ by no more than another order of many additions makes."""
    if _same(one, other):
        return True
    if one.shape != other.shape or one.dtype != other.dtype or not one.is_floating_point():
        return False
    allowed = min(1000 * torch.finfo(one.dtype).eps, 1e-2) * one.double().abs().max()
    return bool((one.double() - other.double()).abs().max() <= allowed)  # never true where there is a NaN
