"""Times eager, torch.compile and the kernel side by side on a GPU, in a child of their own.

The problem comes first and is made ready while the kernel is still being verified elsewhere. Samples of what the
kernel returns while it is timed go back to be compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from verifier import cases, compiled_before, gpu_warmup, power, roofline, room, sandbox, timing, turns
from verifier.candidate import KERNEL_FILE, PROBLEM_FILE, devices
from verifier.checksums import Checksums, checksums
from verifier.errors import one_line
from verifier.loading import Refused, build, load_kernel, refusal
from verifier.tree import flatten
from verifier.wire import Channel

POOL = 3
"""Inputs that take turns, so that no call is given what the last one was given."""
BESIDE = 3
"""Times the inputs' memory that a call takes beside them: its own copy, results, what is on the way to them."""
SAMPLED = 4096
_PROGRAMS = ("any",)  # Triton starts ptxas; what that may write is still only the scratch folder


def serve(channel: Channel) -> None:
    """Measure eager and a kernel: three requests, the problem (made ready), the kernel (built), and to begin."""
    _serve(channel, compiling=False)


def serve_compiling(channel: Channel) -> None:
    """Measure torch.compile too: it is given the module, and compiles, when the problem comes."""
    _serve(channel, compiling=True)


def _serve(channel: Channel, compiling: bool) -> None:
    gpu_warmup.launch_nothing()
    rehearse(compiling)
    meter = power.open_power(str(torch.cuda.get_device_properties(0).uuid))
    try:
        if (request := channel.receive()) is None:
            return
        try:
            rivals = Rivals(request, compiling)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # the module's own doing, or torch.compile's: nothing to hold against a kernel
            channel.send({"ok": False, "unmeasured": one_line(error)})
            return
        channel.send({"ok": True})
        if (request := channel.receive()) is None:
            return
        race = Race(rivals, request, meter)
        channel.send({"built": True})
        if (request := channel.receive()) is None:
            return
        channel.send(race.run(request["budget"]))
    except torch.OutOfMemoryError:
        channel.send({"ok": False, "too_large": True})
    except Refused as refused:
        channel.send({"ok": False, **refused.described()})


def rehearse(compiling: bool) -> None:
    """Do once what every problem needs, while nobody waits: modules and GPU kernels are loaded at their first use."""
    values = torch.randn(64, 64, device="cuda")
    sample(values), checksums(values)
    roofline.counted_flops(lambda: values @ values)
    clock = timing.CudaClock()
    clock.flush()
    clock.time(torch.clone, [values])
    if compiling:
        compiled(torch.nn.GELU())(values)


def compiled(module: torch.nn.Module) -> Any:
    """Hand a module to torch.compile, which compiles at the first call and in this process."""
    import torch._inductor.config as inductor

    inductor.compile_threads = 1
    return torch.compile(module)


class Rivals:
    """What a kernel is measured against, its inputs, and what these allow: nothing of the candidate's is here yet.

    What torch.compile makes stays in the folder `caches`, where it is found again for the next candidate.
    """

    def __init__(self, request: dict[str, Any], compiling: bool) -> None:
        self.scratch = Path(os.path.realpath(os.getcwd()))
        self.init_seed, self.case = request["seed"], cases.Case(**request["case"])
        self.problem = cases.load(request["source"], self.scratch / PROBLEM_FILE)
        self.eager = cases.construct(self.problem, request["entry"], self.init_seed, "cuda")
        cases.randomise(self.eager, request["parameter_seed"])
        self.models: dict[str, torch.nn.Module] = {"eager": self.eager}
        with turns.shared():
            self.pool = [self._inputs(0)]
        room.reserve(flatten(self.pool).tensors, POOL - 1 + BESIDE)
        with turns.shared():
            self.pool += [self._inputs(number) for number in range(1, POOL)]
            self._measure_up()
        if compiling:
            self._compile(request["caches"])

    def fresh(self, number: int) -> tuple[list[Any], dict[str, Any]]:
        """Copy inputs of the pool, the given ones for 0: drawing large ones again takes seconds."""
        args, kwargs = cases.clone(self.pool[number % POOL])
        return args, kwargs

    def _inputs(self, number: int) -> tuple[list[Any], dict[str, Any]]:
        seed = self.case.seed if number == 0 else cases.derive(self.case.seed, "timed", number)
        return cases.build_inputs(self.problem, cases.Case(seed), "cuda")

    def _measure_up(self) -> None:
        """Keep a sample of the right result, and count what must at least be moved and computed."""
        args, kwargs = self.fresh(0)
        with torch.no_grad():
            outputs = self.eager(*args, **kwargs)
            self.expected, self.sums = sample(outputs), checksums(outputs)
            written = flatten(outputs).tensors
            tensors = [*flatten((args, kwargs)).tensors, *self.eager.parameters()]
            floats = [t.dtype for t in tensors if t.is_floating_point()]
            self.bounds = {
                "moved": roofline.bytes_once([*tensors, *written]),
                "written": roofline.bytes_once(written),
                "precision": str(floats[0] if floats else torch.float32).removeprefix("torch."),
            }
            del outputs, written
            args, kwargs = self.fresh(0)
            self.bounds["flops"] = roofline.counted_flops(lambda: self.eager(*args, **kwargs))

    def _compile(self, caches: str) -> None:
        own = os.environ["TRITON_CACHE_DIR"]
        os.environ.update(TORCHINDUCTOR_CACHE_DIR=f"{caches}/inductor", TRITON_CACHE_DIR=f"{caches}/triton")
        model = compiled(self.eager)
        args, kwargs = self.fresh(0)
        with torch.no_grad():
            model(*args, **kwargs)
        torch.cuda.synchronize()
        os.environ["TRITON_CACHE_DIR"] = own
        self.models["compile"] = model


class Race:
    """The rivals and the kernel with the same parameters, and fresh inputs for every call."""

    def __init__(self, rivals: Rivals, request: dict[str, Any], meter: power.Power | None) -> None:
        self.rivals, self.meter = rivals, meter
        self.samples: list[list[float]] = []
        self.sums: Checksums | None = None
        self.clock = timing.CudaClock()  # made before the candidate is loaded: it keeps the real events
        self.file = str(rivals.scratch / KERNEL_FILE)
        compiled_before.take_over(request["compiled"], rivals.scratch)
        sandbox.confine(str(rivals.scratch), devices("cuda"), _PROGRAMS)  # from here on the candidate acts
        Path(self.file).write_text(request["kernel"], encoding="utf-8")
        module = load_kernel(Path(self.file))
        self.kernel = build(module, rivals.problem, rivals.init_seed, self.file, "cuda")
        self.kernel.load_state_dict(rivals.eager.state_dict())

    def run(self, budget: float) -> dict[str, Any]:
        """Measure everybody in one run of `budget` seconds."""

        def caller(model: torch.nn.Module) -> Callable[..., Any]:
            def call(args: list[Any], kwargs: dict[str, Any]) -> Any:
                with torch.no_grad():
                    return model(*args, **kwargs)

            return call

        contestants = {name: caller(model) for name, model in self.rivals.models.items()}
        contestants["kernel"] = self._kernel
        samples = timing.measure(contestants, self.rivals.fresh, budget_s=budget, clock=self.clock, check=self._look)
        return {
            "ok": True, "times": samples.times, "late": samples.late_ms, "samples": self.samples,
            "expected": self.rivals.expected, "sums": self.sums, "expected_sums": self.rivals.sums,
            "power": self.meter.words() if self.meter else "", **self.rivals.bounds,
        }  # fmt: skip

    def _kernel(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        try:
            with torch.no_grad():
                return self.kernel(*args, **kwargs)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            raise refusal(error, self.file, "running the kernel") from error

    def _look(self, name: str, inputs: Any, output: Any) -> None:
        """Keep a sample of what the kernel returned for the first inputs while it was timed."""
        if self.meter:
            self.meter.look()
        if name == "kernel" and len(self.samples) < 8 and self._is_first(inputs):
            self.samples.append(sample(output))
            self.sums = self.sums or checksums(output)

    def _is_first(self, inputs: Any) -> bool:
        pairs = zip(flatten(inputs).tensors, flatten(self.rivals.pool[0]).tensors, strict=True)
        return all(torch.equal(one, other) for one, other in pairs)


def sample(output: Any) -> list[float]:
    """Return evenly spread elements of every returned tensor."""
    values: list[float] = []
    for tensor in flatten(output).tensors:
        flat = tensor.detach().reshape(-1)
        step = max(1, flat.numel() // SAMPLED)
        values += flat[::step][:SAMPLED].double().cpu().tolist() if not flat.is_complex() else []
    return values
