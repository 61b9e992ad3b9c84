"""Ways to put one's own code under PyTorch's operations, where no mode sees what it does: noticed when they are used.

A tensor class whose methods run in the place of torch's, or another implementation of an operation that exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

PASSING_ON = ("/torch/library.py",)
"""Parts of torch that register what others hand them."""
SUBCLASS, REPLACEMENT = "makes a tensor class of its own", "replaces operations of PyTorch"
_BUILT_IN = frozenset({"aten", "prim", "prims", "_"})


def watch(refuse: Callable[[str], None], refuse_through: Callable[[str], None]) -> None:
    """Watch this process; both refuse what the candidate is behind, the latter also what it does by `PASSING_ON`."""
    library = torch._C._dispatch_library

    def subclassed(cls: Any) -> None:
        refuse(f"{SUBCLASS} ({cls.__name__})")

    def opened(kind: str, name: str, *where: Any) -> Any:
        if kind != "DEF" and name in _BUILT_IN:
            refuse_through(f"{REPLACEMENT} ({name})")
        return library(kind, name, *where)

    torch.Tensor.__init_subclass__ = classmethod(subclassed)  # type: ignore[assignment]
    torch._C._dispatch_library = opened  # type: ignore[assignment]
