"""Times eager, torch.compile and the kernel side by side on a GPU, in a child of their own.

The kernel was verified elsewhere; samples of what it returns while it is timed go back to be compared.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from verifier import cases, roofline, sandbox, timing
from verifier.candidate import KERNEL_FILE, PROBLEM_FILE, devices, warm_up
from verifier.loading import Refused, build, load_kernel
from verifier.tree import flatten
from verifier.wire import Channel

POOL = 3
SAMPLED = 4096
_PROGRAMS = ("any",)  # torch.compile and Triton start compilers; what they may write is still only the scratch folder


def serve(channel: Channel) -> None:
    """Answer one request: first eager against the kernel, then torch.compile against the kernel."""
    warm_up()
    request = channel.receive()
    if request is None:
        return
    try:
        try:
            race = _Race(request)
        except torch.OutOfMemoryError:
            channel.send({"ok": False, "too_large": True})
            return
        channel.send(race.first())
        if request["baseline"] in ("compile", "both"):
            channel.send(race.compiled())
    except Refused as refused:
        channel.send({"ok": False, **refused.described()})


def _copy_if_new(source: str, target: str) -> None:
    """Copy a file, unless there is one: a library that is loaded must not be written over."""
    if not os.path.exists(target):
        shutil.copy2(source, target)


class _Race:
    """Both modules with the same parameters, and fresh inputs for every call."""

    def __init__(self, request: dict[str, Any]) -> None:
        scratch = Path(os.path.realpath(os.getcwd()))
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(scratch / "inductor")
        for name in ("triton", "inductor"):
            (scratch / name).mkdir(exist_ok=True)
        with contextlib.suppress(OSError):  # a shortcut: without it the kernel is compiled once more
            shutil.copytree(request["compiled"], scratch / "triton", dirs_exist_ok=True, copy_function=_copy_if_new)
        (scratch / KERNEL_FILE).write_text(request["kernel"], encoding="utf-8")
        (scratch / PROBLEM_FILE).write_text(request["source"], encoding="utf-8")
        sandbox.confine(str(scratch), devices("cuda"), _PROGRAMS)
        self.request, self.samples = request, []  # type: tuple[dict[str, Any], list[list[float]]]
        self.problem = cases.load(request["source"], scratch / PROBLEM_FILE)
        self.eager = cases.construct(self.problem, request["entry"], request["seed"], "cuda")
        cases.randomise(self.eager, request["parameter_seed"])
        self.case = cases.Case(**request["case"])
        self.pool = [self._inputs(number) for number in range(POOL)]
        self.expected = self._eager_sample()  # before the candidate can touch anything in this process
        self.clock = timing.CudaClock()  # made before the candidate is loaded: it keeps the real events
        module = load_kernel(scratch / KERNEL_FILE)
        self.kernel = build(module, self.problem, request["seed"], str(scratch / KERNEL_FILE), "cuda")
        self.kernel.load_state_dict(self.eager.state_dict())

    def _inputs(self, number: int) -> tuple[list[Any], dict[str, Any]]:
        seed = self.case.seed if number == 0 else cases.derive(self.case.seed, "timed", number)
        return cases.build_inputs(self.problem, cases.Case(seed), "cuda")

    def _eager_sample(self) -> list[float]:
        args, kwargs = self._fresh(0)
        with torch.no_grad():
            return sample(self.eager(*args, **kwargs))

    def _fresh(self, number: int) -> tuple[list[Any], dict[str, Any]]:
        args, kwargs = cases.clone(self.pool[number % POOL])
        return args, kwargs

    def _measure(self, rivals: dict[str, torch.nn.Module], budget: float) -> timing.Samples:
        def caller(model: torch.nn.Module) -> Callable[..., Any]:
            def call(args: list[Any], kwargs: dict[str, Any]) -> Any:
                with torch.no_grad():
                    return model(*args, **kwargs)

            return call

        return timing.measure(
            {name: caller(model) for name, model in rivals.items()}, self._fresh, budget_s=budget, clock=self.clock,
            check=self._sample,
        )  # fmt: skip

    def _sample(self, name: str, inputs: Any, output: Any) -> None:
        """Keep a sample of what the kernel returned for the first inputs while it was timed."""
        if name == "kernel" and len(self.samples) < 8 and self._is_first(inputs):
            self.samples.append(sample(output))

    def _is_first(self, inputs: Any) -> bool:
        pairs = zip(flatten(inputs).tensors, flatten(self.pool[0]).tensors, strict=True)
        return all(torch.equal(one, other) for one, other in pairs)

    def first(self) -> dict[str, Any]:
        """Measure eager and the kernel, and what the device would allow."""
        samples = self._measure({"eager": self.eager, "kernel": self.kernel}, self.request["budget"])
        args, kwargs = self._fresh(0)
        with torch.no_grad():
            outputs = self.eager(*args, **kwargs)
            args, kwargs = self._fresh(0)
            flops = roofline.counted_flops(lambda: self.eager(*args, **kwargs))
        tensors = [*flatten((args, kwargs)).tensors, *self.eager.parameters()]
        moved = roofline.bytes_once([*tensors, *flatten(outputs).tensors])
        floats = [t.dtype for t in tensors if t.is_floating_point()]
        return {
            "ok": True, "times": samples.times, "late": samples.late_ms, "samples": self.samples,
            "expected": self.expected, "moved": moved, "flops": flops,
            "written": roofline.bytes_once(flatten(outputs).tensors),
            "precision": str(floats[0] if floats else torch.float32).removeprefix("torch."),
            "power": roofline.power_state(),
        }  # fmt: skip

    def compiled(self) -> dict[str, Any]:
        """Measure torch.compile beside the kernel."""
        import torch._inductor.config as inductor

        inductor.compile_threads = 1  # no helper processes
        try:
            model: Any = torch.compile(self.eager)
            samples = self._measure({"compile": model, "kernel": self.kernel}, self.request["budget"])
        except Exception as error:  # torch.compile cannot do every module: that is an answer
            return {"ok": True, "failed": f"{type(error).__name__}"}
        return {"ok": True, "times": samples.times, "late": samples.late_ms}


def sample(output: Any) -> list[float]:
    """Return evenly spread elements of every returned tensor."""
    values: list[float] = []
    for tensor in flatten(output).tensors:
        flat = tensor.detach().reshape(-1)
        step = max(1, flat.numel() // SAMPLED)
        values += flat[::step][:SAMPLED].double().cpu().tolist() if not flat.is_complex() else []
    return values
