"""One way to call a problem: its module, its parameters and its inputs, the same in every process that asks.

Pasted code is executed here, so these functions are only called in child processes.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import random
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from verifier import layouts, variations
from verifier.errors import VerificationError, reference_failed
from verifier.parameters import randomise
from verifier.tree import map_tensors

__all__ = ["Case", "buffers", "build_inputs", "clone", "construct", "derive", "forward_seed", "init_arguments", "load",
           "randomise", "seed_all"]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One call: the seed of its inputs, how values, sizes and strides differ from the given ones, words for people."""

    seed: int
    values: str = "given"
    sizes: str = "given"
    label: str = "given inputs"
    layout: str = "given"


def derive(seed: int, *parts: object) -> int:
    """Make a new seed that cannot be guessed from its neighbours."""
    digest = hashlib.sha256(repr((seed, *parts)).encode()).digest()
    return int.from_bytes(digest[:6], "little")


def forward_seed(case: Case) -> int:
    """Return the seed to set right before a forward, on both sides, so that random numbers are the same."""
    return derive(case.seed, "forward")


def seed_all(seed: int) -> None:
    """Seed every generator that pasted code is likely to use."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def load(source: str, path: Path) -> types.ModuleType:
    """Write the source to a real file and execute it as a module; raise VerificationError."""
    if not path.exists() or path.read_text(encoding="utf-8") != source:
        path.write_text(source, encoding="utf-8")
    linecache.checkcache(str(path))
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module  # dataclasses, pickling and inspect look a class's module up by name
    seed_all(0)
    with no_stdin():
        try:
            exec(compile(source, str(path), "exec"), module.__dict__)
        except (Exception, SystemExit) as error:
            raise reference_failed(error, str(path), "loading the module") from error
    return module


@contextmanager
def no_stdin() -> Iterator[None]:
    """Let input() meet an end of file instead of the person's keyboard."""
    kept = sys.stdin
    with open(os.devnull) as nothing:
        sys.stdin = nothing
        try:
            yield
        finally:
            sys.stdin = kept


def init_arguments(module: types.ModuleType) -> tuple[list[Any], dict[str, Any]]:
    """Read get_init_inputs() in every form people write it."""
    given = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
    return arguments(given)


def arguments(given: Any, *, init: bool = True) -> tuple[list[Any], dict[str, Any]]:
    """Split what get_init_inputs (or, with `init` false, get_inputs) returned into positional and keyword arguments."""
    if given is None:
        return [], {}
    if isinstance(given, dict):
        return [], dict(given)
    if isinstance(given, (torch.Tensor, str, bool, int, float)):
        return [given], {}
    listed = list(given)  # a generator too
    if init and len(listed) == 2 and isinstance(listed[0], (list, tuple)) and _is_keywords(listed[1]):
        return list(listed[0]), dict(listed[1])  # KernelBook: [[positional], {keyword}]
    return listed, {}


def _is_keywords(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) and key.isidentifier() for key in value)


def construct(module: types.ModuleType, entry: str, seed: int, device: str = "cpu") -> torch.nn.Module:
    """Build the module named `entry` from its own arguments, with seeded initial values."""
    path = str(module.__file__)
    try:
        seed_all(seed)
        args, kwargs = init_arguments(module)
        seed_all(seed)
        model = getattr(module, entry)(*args, **kwargs)
    except (Exception, SystemExit) as error:
        raise reference_failed(error, path, f"constructing {entry}") from error
    if not isinstance(model, torch.nn.Module):
        raise VerificationError("reference_error", f"{entry} is not an nn.Module", "paste a class that derives from it")
    return model.to(device)


def buffers(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the persistent buffers by name: the state a forward may change."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    return {name: value for name, value in model.state_dict().items() if name not in parameters}


def build_inputs(module: types.ModuleType, case: Case, device: str = "cpu") -> tuple[list[Any], dict[str, Any]]:
    """Make the inputs of a case: equal in two processes, never shared between two calls."""
    try:
        if device == "cpu":
            return _built(module, case)
        with torch.device(device):  # a 13 GB input is drawn where it is needed
            args, kwargs = move(_built(module, case), device)
    except (Exception, SystemExit) as error:
        if device != "cpu" and not isinstance(error, torch.OutOfMemoryError):  # get_inputs may know only the CPU
            args, kwargs = move(build_inputs(module, case), device)
            return args, kwargs
        raise reference_failed(error, str(module.__file__), "get_inputs()") from error
    return args, kwargs


def _built(module: types.ModuleType, case: Case) -> tuple[list[Any], dict[str, Any]]:
    seed_all(case.seed)
    drawn = clone(arguments(module.get_inputs(), init=False))
    if case.sizes != "given":
        more = (clone(arguments(module.get_inputs(), init=False)) for _ in range(variations.MAX_DRAWS))
        drawn = variations.resize(case.sizes, drawn, more)
    if case.values != "given":
        drawn = variations.revalue(case.values, drawn, derive(case.seed, "values"))
    if case.layout != "given":
        drawn = layouts.relaid(case.layout, drawn)
    args, kwargs = drawn
    return args, kwargs


def clone(value: Any) -> Any:
    """Copy every tensor of a nested value, keeping strides and which tensors share memory."""
    return move(value, None)


def move(value: Any, device: str | None) -> Any:
    """Copy a nested value to a device (None: where it is), keeping strides and which tensors share memory."""
    copies: dict[int, torch.Tensor] = {}

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout is not torch.strided or tensor.is_quantized:
            return tensor.detach().clone() if device is None else tensor.detach().to(device)
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in copies or not storage.nbytes():
            flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            copies[storage.data_ptr()] = flat.clone() if device is None else flat.to(device, copy=True)
        copy = torch.empty(0, dtype=tensor.dtype, device=device or tensor.device)
        base = copies[storage.data_ptr()].untyped_storage()
        return copy.set_(base, tensor.storage_offset(), tensor.size(), tensor.stride())

    return map_tensors(copied, value)
