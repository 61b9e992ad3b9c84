"""What Triton was asked to do: every kernel launch of a call, traced where Triton itself starts them.

Runs in the candidate's child, before the candidate is loaded, for the interpreter and for a GPU alike.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from verifier.copies import change
from verifier.guards import Guards
from verifier.interpreter import Memory
from verifier.provenance import Provenance
from verifier.tree import is_tensor

_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
"""What torch can add to, in place of what it cannot."""


@dataclass
class Launch:
    """One launch: which kernel, with arguments of which kinds, and whether it came to its end."""

    kernel: str
    qualname: str
    signature: list[dict[str, Any]]
    options: dict[str, Any]
    main_thread: bool
    error: str = ""
    fed: bool = False  # known only then, too: it is given numbers that PyTorch computed
    changes: str = ""  # known only when results are falsified: it copies, or shifts and scales, what PyTorch made


@dataclass
class Trace:
    """The launches since the last reset. `scramble` falsifies what a launch wrote, to see whether anybody uses it."""

    memory: Memory | None
    launches: list[Launch] = field(default_factory=list)
    scramble: bool = False
    guards: Guards | None = None
    overruns: list[str] = field(default_factory=list)  # what launches wrote beside their tensors, in words
    given: frozenset[int] = frozenset()  # where inputs and parameters lie: a copy of those is no copy of PyTorch's work
    provenance: Provenance = field(default_factory=Provenance)
    torch_compile: bool = False
    _runner: Any = None
    _from_kernels: set[int] = field(default_factory=set)

    def reset(self, guards: Guards | None = None) -> None:
        """Forget what was traced; look at these guard bands from now on."""
        self.launches, self.overruns, self.guards = [], [], guards
        self._from_kernels = set()

    def install(self) -> None:
        """Trace the launches of this process from now on.

        In torch.compile's place the use is noted and the model run as it is: compiled PyTorch is nobody's own kernel.
        """
        if self.memory is not None:
            from triton.runtime.interpreter import InterpretedFunction as Runner
        else:
            from triton.runtime.jit import JITFunction as Runner
        run = Runner.run

        def traced(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            if warmup:
                return run(kernel, *args, grid=grid, warmup=warmup, **kwargs)
            with self._launch(kernel, args, kwargs):
                return run(kernel, *args, grid=grid, warmup=warmup, **kwargs)

        Runner.run = traced
        self._runner = (Runner, traced)

        def compile(model: Any = None, **options: Any) -> Any:  # no method: that would lead here
            self.torch_compile = True
            return model if model is not None else (lambda function: function)

        torch.compile = compile

    def intact(self) -> bool:
        """Whether the trace is still in its place: a candidate may have replaced it."""
        runner, traced = self._runner
        return runner.run is traced

    @contextmanager
    def _launch(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[None]:
        named = {**dict(zip(kernel.arg_names, args, strict=False)), **kwargs}
        launch = describe(kernel, named)
        self.launches.append(launch)
        tensors = [(name, tensor) for name, value in named.items() for tensor in tensors_of(value)]
        if self.memory is not None:
            self.memory.begin(launch.kernel, tensors)
        self.provenance.met(f"the kernel {launch.kernel}", (tensor for _, tensor in tensors))
        before = snapshot([tensor for _, tensor in tensors]) if self.scramble else {}
        try:
            yield
        except BaseException as error:
            launch.error = type(error).__name__
            raise
        if self.guards is not None and (overrun := self.guards.find(launch.kernel, tensors)):
            self.overruns.append(overrun)
        with _disable_current_modes():  # what we do here is not the candidate's work
            if self.scramble:
                launch.fed, launch.changes = change(before, self.given, self._from_kernels)
            self._from_kernels |= falsify(before)
            self.provenance.written(tensor for _, tensor in tensors)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors inside a kernel argument: itself, a tuple's, a descriptor's base."""
    if is_tensor(value):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in tensors_of(item)]
    base = getattr(value, "base", None)
    if is_tensor(base):
        return [base]
    if hasattr(value, "data_ptr"):  # Triton would take it; nobody could say what it leads to
        raise TypeError(f"a kernel is given a {type(value).__name__} that points to memory and is no tensor")
    return []


def snapshot(tensors: list[torch.Tensor]) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    """Copy the memory behind tensors, by its address."""
    return {tensor.untyped_storage().data_ptr(): (tensor, _bytes(tensor).clone()) for tensor in tensors}


def falsify(before: dict[int, tuple[torch.Tensor, torch.Tensor]]) -> set[int]:
    """Replace what was written since the snapshot; return the addresses of the memory concerned."""
    changes = [(start, tensor, _bytes(tensor) != old) for start, (tensor, old) in before.items()]
    for _, tensor, changed in changes:
        _falsify(tensor, changed)
    return {start for start, _, changed in changes if changed.any()}


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _falsify(tensor: torch.Tensor, changed: torch.Tensor) -> None:
    """Replace written values by other finite ones of the same kind and size: what is nothing stays nothing."""
    size = tensor.element_size()
    whole = changed[: changed.numel() // size * size].view(-1, size).any(dim=1)
    flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())
    flat = flat[: whole.numel()]
    if tensor.dtype == torch.bool:
        flat[whole] = False
    elif tensor.is_floating_point():
        wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
        value = torch.nan_to_num(flat[whole].to(wide))
        factor = torch.arange(value.numel(), device=value.device) % 3 * -1.37 + 1.9  # no scale and no sign is kept
        most = torch.finfo(tensor.dtype).max
        flat[whole] = (value * factor).clamp(-most, most).to(tensor.dtype)
    else:
        flat = flat.view(_SIGNED.get(tensor.dtype, tensor.dtype))
        flat[whole] = flat[whole] + (flat[whole] != 0)


def describe(kernel: Any, named: dict[str, Any]) -> Launch:
    """Describe a launch of `kernel` with these arguments, as far as its compilation depends on them."""
    function = kernel.fn
    params = {name: _kind(named[name], name in constexprs(kernel)) for name in kernel.arg_names if name in named}
    options = {
        name: value
        for name, value in named.items()
        if name in ("num_warps", "num_stages", "num_ctas", "maxnreg") and name not in kernel.arg_names
    }
    return Launch(
        function.__name__,
        function.__qualname__,
        [{"name": n, **p} for n, p in params.items()],
        options,
        threading.current_thread() is threading.main_thread(),
    )


def constexprs(kernel: Any) -> set[str]:
    """Return the names of a kernel's compile-time arguments."""
    found = set()
    for name, note in getattr(kernel.fn, "__annotations__", {}).items():
        if "constexpr" in (note if isinstance(note, str) else getattr(note, "__name__", str(note))):
            found.add(name)
    return found


def _kind(value: Any, constexpr: bool) -> dict[str, Any]:
    """Describe an argument as far as compilation depends on it, in JSON."""
    if constexpr:
        value = getattr(value, "value", value)
        if value is None or isinstance(value, (bool, int, float, str)):
            return {"kind": "constexpr", "value": value}
        if type(value).__module__.startswith("triton.language") and hasattr(value, "name"):
            return {"kind": "dtype", "value": value.name}
        name = getattr(getattr(value, "fn", value), "__qualname__", None)
        return {"kind": "function", "value": name} if name else {"kind": "other", "value": type(value).__name__}
    if isinstance(value, torch.Tensor):
        return {
            "kind": "pointer",
            "dtype": str(value.dtype).removeprefix("torch."),
            "aligned": value.data_ptr() % 16 == 0,
        }
    base, block = getattr(value, "base", None), getattr(value, "block_shape", None)
    if isinstance(base, torch.Tensor) and isinstance(block, (list, tuple)):
        dtype = str(base.dtype).removeprefix("torch.")
        return {"kind": "descriptor", "dtype": dtype, "block": [int(length) for length in block]}
    if value is None or isinstance(value, (bool, int, float)):
        return {"kind": "scalar", "type": type(value).__name__, "value": value}
    return {"kind": "other", "value": type(value).__name__}


def kernel_line(error: BaseException, file: str) -> int | None:
    """Return the deepest line of `file` that an exception, or what caused it, passed through."""
    line, seen = None, error
    while seen is not None:
        step: Any = seen.__traceback__
        while step is not None:
            if step.tb_frame.f_code.co_filename == file:
                line = step.tb_lineno
            step = step.tb_next
        seen = seen.__cause__  # type: ignore[assignment]
    return line


def quietly(function: Callable[[], Any]) -> Any:
    """Run a function with the interpreter's numpy warnings switched off."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return function()
    with numpy.errstate(all="ignore"):
        return function()
