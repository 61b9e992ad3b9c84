"""One problem in all ways, taken in turns: eager, torch.compile, files of kernels. Times and errors of each."""

from __future__ import annotations

import copy
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from backends.compiler.capture import load
from verifier import timing

Call = Callable[..., torch.Tensor]
Line = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """A problem's text, and how many of its first samples are compared with float64 (None: all there is)."""

    name: str
    text: str
    samples: int | None = None


class CpuClock:
    """Stands in for the GPU's clock where there is none: that everything runs can be seen, how fast cannot."""

    def flush(self) -> None:
        """Leave the caches as they are."""

    def time(self, call: Call, inputs: Sequence[Any]) -> tuple[float, float, Any]:
        """Return the host's milliseconds, no work afterwards, and the output."""
        began = time.perf_counter()
        output = call(*inputs)
        return 1e3 * (time.perf_counter() - began), 0.0, output


class Ways:
    """The ways to run a problem that do run, with the same parameters; `lines` says of each how its first call went."""

    def __init__(self, problem: Problem, files: Mapping[str, str], device: str) -> None:
        self.problem, self.device = problem, device
        given = _loaded(problem.text)
        torch.manual_seed(0)
        self.eager: torch.nn.Module = given.Model().to(device)
        self.inputs = [leaf.to(device) for leaf in given.get_inputs()]
        self.exact = self._exact()
        self.calls: dict[str, Call] = {}
        self.lines: dict[str, Line] = {}
        self._try("eager", lambda: self.eager)
        backend = "inductor" if device == "cuda" else "eager"
        self._try("torch.compile", lambda: torch.compile(self.eager, backend=backend))
        for way, file in files.items():
            self._try(way, lambda file=file: self._built(file))  # type: ignore[misc]

    def measure(self, seconds: float) -> Iterator[Line]:
        """Yield a line a way: the median in ms with its quartiles, and the speed beside eager with its interval."""
        clock = timing.CudaClock() if self.device == "cuda" else CpuClock()
        samples = timing.measure(self.calls, lambda number: self.inputs, budget_s=seconds, clock=clock)
        for way, line in self.lines.items():
            if way in samples.times:
                yield {**line, **_said(samples.times[way], samples.times.get("eager", samples.times[way]))}
            else:
                yield line

    def _try(self, way: str, make: Callable[[], Any]) -> None:
        """Make a way and call it once; one that does not run is said, and left out."""
        line: Line = {"problem": self.problem.name, "way": way}
        began = time.monotonic()
        try:
            model = make()

            def call(*inputs: torch.Tensor) -> torch.Tensor:
                with torch.no_grad():
                    return model(*inputs)  # type: ignore[no-any-return]

            output = call(*self.inputs)
            if self.device == "cuda":
                torch.cuda.synchronize()
            line["first_call_s"] = round(time.monotonic() - began, 2)
            line["error"] = self._error(output)
            self.calls[way] = call
        except Exception as fault:
            line["fault"] = f"{type(fault).__name__}: {' '.join(str(fault).split())[:300]}"
        self.lines[way] = line
        if self.device == "cuda":
            torch.cuda.synchronize()  # after an illegal address nothing can be measured here any more: this raises
            torch.cuda.empty_cache()

    def _built(self, file: str) -> Any:
        model = _loaded(file).ModelNew().to(self.device)
        model.load_state_dict(self.eager.state_dict())
        return model

    def _exact(self) -> torch.Tensor | None:
        """Compute in float64; None where that does not fit or is not there."""
        wide = [leaf[: self.problem.samples] for leaf in self.inputs]
        try:
            with torch.no_grad():
                result: torch.Tensor = copy.deepcopy(self.eager).double()(*(leaf.double() for leaf in wide))
            return result
        except RuntimeError:
            return None

    def _error(self, output: torch.Tensor) -> float | str | None:
        """Return the norm of the difference over the norm, where finite."""
        if self.exact is None:
            return None
        found = output[: self.problem.samples]
        finite = self.exact.isfinite()
        if not torch.equal(finite, found.isfinite()):
            return "other places are finite"
        gap = torch.where(finite, found.double() - self.exact, 0.0).norm()
        return float(gap / torch.where(finite, self.exact, 0.0).norm())


def _said(times: Sequence[float], eager: Sequence[float]) -> Line:
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return {
        "ms": _short(middle),
        "quartiles": [_short(low), _short(high)],
        "rounds": len(times),
        "speedup": _short(statistics.median(eager) / middle),
        "interval": [_short(bound) for bound in timing.ratio_interval(eager, times)],
    }


def _short(number: float) -> float:
    return float(f"{number:.4g}")


def _loaded(text: str) -> Any:
    path = Path(tempfile.mkdtemp()) / "kernel.py"  # Triton reads the source again when it compiles
    path.write_text(text, encoding="utf-8")
    return load(path)
