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

from verifier.interpreter import Memory


@dataclass
class Launch:
    """One launch: which kernel, with arguments of which kinds, and whether it came to its end."""

    kernel: str
    qualname: str
    signature: list[dict[str, Any]]
    options: dict[str, Any]
    main_thread: bool
    error: str = ""
    copies: bool = False  # known only when results are falsified: it wrote nothing but copies of its arguments


@dataclass
class Trace:
    """The launches since the last reset. `scramble` falsifies what a launch wrote, to see whether anybody uses it."""

    memory: Memory | None
    launches: list[Launch] = field(default_factory=list)
    scramble: bool = False
    given: frozenset[int] = frozenset()  # where inputs and parameters lie: a copy of those is no copy of PyTorch's work
    torch_compile: bool = False
    _runner: Any = None

    def reset(self) -> None:
        """Forget what was traced."""
        self.launches = []

    def install(self) -> None:
        """Trace the launches of this process from now on."""
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
        torch.compile = self._compile

    def intact(self) -> bool:
        """Whether the trace is still in its place: a candidate may have replaced it."""
        runner, traced = self._runner
        return runner.run is traced

    def _compile(self, model: Any = None, **options: Any) -> Any:
        """Stand in for torch.compile: note the use, run eagerly. Compiled PyTorch is not a kernel somebody wrote."""
        self.torch_compile = True
        return model if model is not None else (lambda function: function)

    @contextmanager
    def _launch(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[None]:
        named = {**dict(zip(kernel.arg_names, args, strict=False)), **kwargs}
        launch = _describe(kernel, named)
        self.launches.append(launch)
        tensors = [(name, tensor) for name, value in named.items() for tensor in tensors_of(value)]
        if self.memory is not None:
            self.memory.begin(launch.kernel, tensors)
        before = {t.untyped_storage().data_ptr(): (t, _bytes(t).clone()) for _, t in tensors} if self.scramble else {}
        try:
            yield
        except BaseException as error:
            launch.error = type(error).__name__
            raise
        with _disable_current_modes():  # what we do here is not the candidate's work
            changes = [(tensor, old, _bytes(tensor) != old) for tensor, old in before.values()]
            written = [(tensor, old) for tensor, old, changed in changes if changed.any()]
            others = [old for start, (_, old) in before.items() if start not in self.given]
            launch.copies = bool(written) and all(_is_copy(tensor, others) for tensor, _ in written)
            for tensor, _, changed in changes:
                _falsify(tensor, changed)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors inside a kernel argument: itself, a tuple's, a descriptor's base."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in tensors_of(item)]
    base = getattr(value, "base", None)
    return [base] if isinstance(base, torch.Tensor) else []


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _is_copy(tensor: torch.Tensor, others: list[torch.Tensor]) -> bool:
    now = _bytes(tensor)
    return any(other.shape == now.shape and torch.equal(other, now) for other in others)


def _falsify(tensor: torch.Tensor, changed: torch.Tensor) -> None:
    """Replace written values by other finite ones of the same kind."""
    size = tensor.element_size()
    whole = changed[: changed.numel() // size * size].view(-1, size).any(dim=1)
    flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())
    flat = flat[: whole.numel()]
    if tensor.dtype == torch.bool:
        flat[whole] = ~flat[whole]
    elif tensor.is_floating_point():
        flat[whole] = torch.nan_to_num(flat[whole].float() * 0.5 + 0.7310586).to(tensor.dtype)
    else:
        flat[whole] = flat[whole] + 1


def _describe(kernel: Any, named: dict[str, Any]) -> Launch:
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
