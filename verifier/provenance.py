"""Where numbers come from: what kernels read and forward returns must come from inputs, kernels, or seen operations.

Work can be hidden from a dispatch mode (another thread, a mode switched off, ctypes); that its results turn up in
memory which nobody was seen to write cannot. Runs in the candidate's child.
"""

from __future__ import annotations

import gc
import types
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from verifier.tree import flatten

LARGEST = 64 << 20  # bytes of a storage that is worth a checksum
MOST_OBJECTS = 20_000
MOST_SCALARS = 4096
_LEAVES = (int, float, bool, str, bytes, type(None), types.ModuleType, types.CodeType, torch.dtype, torch.device)


@dataclass(frozen=True)
class Unexplained:
    """Numbers of unknown origin: what met them, how many they are, whether they are real numbers, their checksum."""

    where: str
    count: int
    floating: bool
    checksum: int


@dataclass
class Provenance:
    """Checksums of every storage as it was last written by somebody who was seen."""

    active: bool = False
    unexplained: list[Unexplained] = field(default_factory=list)
    scalars: set[float] = field(default_factory=set)  # real numbers that operations were given by Python
    _known: dict[int, int] = field(default_factory=dict)

    def begin(self, active: bool, *roots: Any) -> None:
        """Start a call: what hangs on `roots` already has an origin."""
        self.active, self.unexplained, self.scalars, self._known = active, [], set(), {}
        if active:
            self.written(_tensors_below(roots))

    def written(self, tensors: Iterable[torch.Tensor]) -> None:
        """Note what somebody who was seen has left in memory."""
        for tensor in tensors:
            found = _checksum(tensor) if self.active else None
            if found is not None:
                self._known[found[0]] = found[1]

    def met(self, where: str, tensors: Iterable[torch.Tensor]) -> None:
        """Look whether these are as they were last written; keep what is not."""
        for tensor in tensors:
            found = _checksum(tensor) if self.active else None
            if found is not None and self._known.get(found[0]) != found[1]:
                self._known[found[0]] = found[1]  # said once
                self.unexplained.append(Unexplained(where, tensor.numel(), tensor.is_floating_point(), found[1]))

    def before(self, name: str, args: Sequence[Any]) -> None:
        """Look at the operands of an operation."""
        if self.active:
            self.met(f"the operation {name}", flatten(args).tensors)
            if len(self.scalars) < MOST_SCALARS:
                self.scalars.update(_from_python(name, args))

    def after(self, args: Sequence[Any], result: Any) -> None:
        """Note what an operation returned, or wrote in place."""
        if self.active:
            self.written(flatten([args, result]).tensors)


def _from_python(name: str, args: Sequence[Any]) -> Iterator[float]:
    """Yield the real numbers that Python gave an operation: as they are, or as a tensor that is made of one."""
    yield from (arg for arg in args if type(arg) is float)
    if name == "lift_fresh" and args[0].numel() == 1 and args[0].is_floating_point():
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            yield float(args[0])


def _tensors_below(roots: Sequence[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors that attributes, containers, closures and the classes of the roots' own modules hold."""
    homes = {vars(root).get("__name__") for root in roots if isinstance(root, types.ModuleType)}
    waiting: list[Any] = [_globals(root) if isinstance(root, types.ModuleType) else root for root in roots]
    seen: set[int] = set()
    while waiting and len(seen) < MOST_OBJECTS:
        thing = waiting.pop()
        kind = type(thing)
        if id(thing) in seen or kind in _LEAVES:
            continue
        seen.add(id(thing))
        if issubclass(kind, torch.Tensor):
            yield thing
        elif kind.__module__.partition(".")[0] == "triton":
            continue  # a launched kernel keeps its compiler's thousands of things
        elif kind is types.FunctionType:  # not its globals: those are whole modules
            waiting += [*(thing.__closure__ or ()), *(thing.__defaults__ or ())]
        elif not issubclass(kind, type) or thing.__module__ in homes:
            waiting += gc.get_referents(thing)


def _globals(module: types.ModuleType) -> dict[str, Any]:
    """Return what a module defines, without Python's own."""
    return {name: value for name, value in vars(module).items() if name != "__builtins__"}


def _checksum(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Return where a tensor's storage lies and what is in it; None for what has no plain memory."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():  # this is not the candidate's work
        try:
            storage = tensor.untyped_storage()
            start, size = storage.data_ptr(), storage.nbytes()
            if not start or not size or size > LARGEST:
                return None
            flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            return start, zlib.crc32(flat.cpu().numpy().data)
        except (RuntimeError, NotImplementedError):  # a sparse, fake or wrapped tensor
            return None
