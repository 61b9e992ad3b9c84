"""Recurrent layers traced as the one operator that each is, not step by step along time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher

KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


@contextmanager
def whole() -> Iterator[None]:
    """Answer recurrent operators by their shapes: PyTorch itself traces an operator a gate and a step, for minutes."""
    kept = []
    for kind in KINDS:
        for name, shapes in (("input", _of_padded), ("data", _of_packed)):
            operator = getattr(getattr(torch.ops.aten, kind), name)
            kept.append((operator, dict(operator.py_kernels)))
            _replace(operator, dict.fromkeys([*operator.py_kernels, *_everywhere()], shapes))
    try:
        with enable_python_dispatcher():
            yield
    finally:
        for operator, kernels in kept:
            _replace(operator, kernels)


def _everywhere() -> tuple[Any, Any]:
    return torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd


def _replace(operator: Any, kernels: dict[Any, Any]) -> None:
    operator.py_kernels.clear()
    operator.py_kernels.update(kernels)
    operator._dispatch_cache.clear()


def _of_padded(x: torch.Tensor, state: Any, *settings: Any, **named: Any) -> tuple[torch.Tensor, ...]:
    """The result for x [time, batch, features] in either order; settings end with bidirectional and batch_first."""
    return _results(x, state, settings[5] if len(settings) > 5 else named["bidirectional"])


def _of_packed(
    x: torch.Tensor, batch_sizes: torch.Tensor, state: Any, *settings: Any, **named: Any
) -> tuple[torch.Tensor, ...]:
    """The result for the elements of a packed sequence."""
    return _results(x, state, settings[5] if len(settings) > 5 else named["bidirectional"])


def _results(x: torch.Tensor, state: Any, bidirectional: bool) -> tuple[torch.Tensor, ...]:
    states: Sequence[torch.Tensor] = [state] if isinstance(state, torch.Tensor) else state
    width = (2 if bidirectional else 1) * states[0].shape[-1]
    return (x.new_empty((*x.shape[:-1], width)), *(part.new_empty(part.shape) for part in states))
