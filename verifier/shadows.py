"""Tensors without data: the two ways torch has to run a module without allocating anything."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
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


RECURRENT = frozenset(["new_empty"])
"""What stands for a step of a recurrent layer."""


class _Recurrent(TorchFunctionMode):
    """Answers recurrent layers by their shapes, with one empty result for every step of every layer.

    PyTorch runs them an operator a gate and a step, which takes most of a minute for six layers of 512 steps.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in ("lstm", "gru", "rnn_tanh", "rnn_relu") and not kwargs and len(args) == 9:
            return _run_through(*args)
        return func(*args, **(kwargs or {}))


def _run_through(x: Any, state: Any, third: Any, *settings: Any) -> Any:
    """Make what a recurrent layer returns; `third` is the state where x is a packed sequence and `state` its sizes."""
    is_packed = isinstance(state, torch.Tensor) and not state.is_floating_point()
    states = third if is_packed else state
    states = [states] if isinstance(states, torch.Tensor) else list(states)
    bidirectional = settings[-1] if is_packed else settings[-2]
    batch_first = not is_packed and settings[-1]
    length = state.shape[0] if is_packed else x.shape[1 if batch_first else 0]
    layers, batch, width = states[0].shape
    for _ in range(layers * length):
        x.new_empty((batch, width))
    y = x.new_empty((*x.shape[:-1], (2 if bidirectional else 1) * width))
    return (y, *(one.new_empty(one.shape) for one in states))


@contextmanager
def _meta() -> Iterator[None]:
    with torch.device("meta"), _Blank(), _Recurrent():
        yield


@contextmanager
def _fake() -> Iterator[None]:
    """Slower to start (it imports torch._dynamo), but knows devices and constants."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    log = logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    log.setLevel(logging.CRITICAL)  # it prints a traceback for every try that fails
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), _Recurrent():
            yield
    finally:
        log.setLevel(level)


class _Bounded(TorchDispatchMode):
    """Lets a constructor make real tensors, and stops it before that is too much."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not func.is_view and not func._schema.is_mutable:
            self.bytes += result.numel() * result.element_size()
        if self.bytes > MEMORY:
            raise MemoryError(f"more than {MEMORY >> 30} GB for the constructor alone")
        return result


@contextmanager
def bounded() -> Iterator[None]:
    """Make real tensors, not too many."""
    with _Bounded():
        yield


MEMORY = 4 << 30
SHADOWS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "meta": _meta,
    "fake": _fake,
    "built": _meta,
    "inputs": _fake,
}
"""Cheapest first; of `built` only the forward runs so: its constructor reads numbers; `inputs` runs no forward."""
