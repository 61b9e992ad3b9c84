"""Tensors without data: the two ways torch has to run a module without allocating anything."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _Blank(TorchDispatchMode):
    """Answers random draws on the meta device itself: torch's own way there imports torch._dynamo, over a second."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func._schema.name.rpartition("::")[2], kwargs or {}
        if name in ("uniform_", "normal_", "random_", "bernoulli_", "exponential_"):
            return args[0]
        if name in ("rand", "randn", "randint", "randperm"):
            size = [args[0]] if name == "randperm" else next(a for a in args if isinstance(a, (list, tuple)))
            dtype = kwargs.get("dtype") or (torch.int64 if name.startswith(("randi", "randp")) else None)
            return torch.empty(size, dtype=dtype, device="meta")
        if name in ("rand_like", "randn_like", "randint_like", "bernoulli"):
            return torch.empty_like(args[0], dtype=kwargs.get("dtype"))
        return func(*args, **kwargs)


@contextmanager
def _meta() -> Iterator[None]:
    with torch.device("meta"), _Blank():
        yield


@contextmanager
def _fake() -> Iterator[None]:
    """Slower to start (it imports torch._dynamo), but knows devices and constants."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    log = logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    log.setLevel(logging.CRITICAL)  # it prints a traceback for every try that fails
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            yield
    finally:
        log.setLevel(level)


SHADOWS: dict[str, Callable[[], AbstractContextManager[None]]] = {"meta": _meta, "fake": _fake, "inputs": _fake}
"""Cheapest first; `inputs` does not run the forward."""
