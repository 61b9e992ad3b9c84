"""Operators that PyTorch runs through part by part where there is no data, answered by the shapes of their results.

A recurrent layer has a gate and a step for parts: minutes. A batch norm has twenty operators, a linear layer six: a
third of the time for a network of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher

RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


@contextmanager
def answered() -> Iterator[None]:
    """Answer these operators without a look at what they are made of."""
    kept = [(operator, dict(operator.py_kernels)) for operator in _answers()]
    for operator, shapes in _answers().items():
        _replace(operator, dict.fromkeys([*operator.py_kernels, *_everywhere()], shapes))
    try:
        with enable_python_dispatcher():
            yield
    finally:
        for operator, kernels in kept:
            _replace(operator, kernels)


def _answers() -> dict[Any, Callable[..., Any]]:
    aten = torch.ops.aten
    recurrent = [getattr(aten, kind) for kind in RECURRENT]
    return {
        aten.batch_norm.default: _normed,
        aten.dropout.default: _dropped_out,
        aten.linear.default: _linear,
        **{kind.input: _of_padded for kind in recurrent},
        **{kind.data: _of_packed for kind in recurrent},
    }


def _everywhere() -> tuple[Any, Any]:
    return torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd


def _replace(operator: Any, kernels: dict[Any, Any]) -> None:
    operator.py_kernels.clear()
    operator.py_kernels.update(kernels)
    operator._dispatch_cache.clear()


def _normed(x: torch.Tensor, *settings: Any, **named: Any) -> torch.Tensor:
    """The result for x [batch, channels, ...]; settings begin with what there is one number a channel of, or None."""
    for numbers in settings[:4]:
        if numbers is not None and numbers.shape[0] != x.shape[1]:
            raise ValueError(f"batch norm has {numbers.shape[0]} numbers for {x.shape[1]} channels")
    return torch.empty_like(x)


def _dropped_out(x: torch.Tensor, *settings: Any, **named: Any) -> torch.Tensor:
    return torch.empty_like(x)


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """The result for x [..., features] and a weight [new features, features]."""
    if x.shape[-1] != weight.shape[-1]:
        raise RuntimeError(f"linear takes {int(weight.shape[-1])} features, and is given {int(x.shape[-1])}")
    if x.dtype != weight.dtype or (bias is not None and bias.dtype != x.dtype):
        raise RuntimeError(f"linear has a weight of {weight.dtype}, and is given {x.dtype}")
    result = x.new_empty((*x.shape[:-1], *weight.shape[:-1]))
    if bias is not None:
        bias.expand(result.shape)  # raises where it cannot be added
    return result


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
