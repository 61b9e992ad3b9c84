"""The module to capture: made without data, or, where its constructor reads numbers, for real within bounds.

This executes what was pasted, so it only ever runs in a child process.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from backends import NothingToConvert

MEMORY = 4 << 30
"""Bytes that a constructor may fill with numbers."""


def construct(kind: Any, arguments: list[Any], keywords: dict[str, Any], mode: FakeTensorMode) -> torch.nn.Module:
    """Call a class of the user's; raise NothingToConvert where its own numbers are needed and too many."""
    try:
        with mode:
            module: torch.nn.Module = kind(*arguments, **keywords)
            return module
    except DataDependentOutputException:
        with _Bounded():
            return kind(*arguments, **keywords)  # type: ignore[no-any-return]


class _Bounded(TorchDispatchMode):
    """Counts what is made, and stops before it is too much."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not func.is_view and not func._schema.is_mutable:
            self.bytes += result.numel() * result.element_size()
        if self.bytes > MEMORY:
            raise NothingToConvert(
                "not_convertible",
                f"the constructor reads numbers of tensors, and would fill more than {MEMORY >> 30} GB to have them",
                "Compute such numbers in Python instead.",
            )
        return result
