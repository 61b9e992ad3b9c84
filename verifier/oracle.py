"""The forward in float64: a dispatch mode that widens every step, and on request disturbs it by one rounding."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from verifier import ties

NARROW = frozenset({torch.float32, torch.float16, torch.bfloat16})
TF32_ROUNDING = 2.0**-12  # half of it: only the operands of products are rounded, the noise is put on every step
ROUNDING = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float64: 2.0**-53}

RANDOM = frozenset(
    """
    rand rand_like randn randn_like normal normal_ uniform_ bernoulli bernoulli_ native_dropout exponential_
    log_normal_ cauchy_ geometric_
    """.split()
)
# Results of these are exact, or must compare equal to what they were taken from.
EXACT = frozenset(
    """
    clone _to_copy copy_ copy cat stack index index_select gather embedding select_scatter slice_scatter scatter
    scatter_ index_put index_put_ _unsafe_index masked_fill masked_fill_ where fill fill_ zero_ zeros zeros_like
    ones ones_like full full_like empty empty_like new_zeros new_empty new_full new_ones arange scalar_tensor max
    min amax amin aminmax maximum minimum relu relu_ clamp clamp_ clamp_min clamp_max threshold neg neg_ abs abs_
    sign sgn floor ceil round trunc sort topk kthvalue median mode max_pool2d_with_indices max_pool3d_with_indices
    repeat flip roll tril triu constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d
    replication_pad2d pixel_shuffle _local_scalar_dense lift_fresh lift_fresh_copy _unsafe_view _reshape_alias
    resolve_conj resolve_neg unique _unique2 unfold im2col _pin_memory set_ resize_ cummax cummin one_hot
    """.split()
)

PRODUCTS = frozenset("mm bmm addmm baddbmm mv addmv dot linear convolution".split())
IN_PARTS = 4
"""Roundings that an operand of a float32 product may be off: tensor cores take it in two parts of 11 bits each."""


class CannotWiden(Exception):
    """The module looks at the bits of its numbers, so float64 would change its meaning."""


class Widened(TorchDispatchMode):
    """Runs every operation in float64; random numbers are those the narrow dtype would have drawn."""

    def __init__(self, narrow: torch.dtype, disturb_seed: int | None = None, rounding: float | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.narrow = narrow
        self.rounding = rounding or ROUNDING.get(narrow, 2.0**-24)
        self.disturb_seed = disturb_seed
        self.generators: dict[torch.device, torch.Generator] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import torch._dynamo at the first operation: a second, for nothing

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation on widened operands."""
        name, kwargs = func._schema.name.rpartition("::")[2], dict(kwargs or {})
        if func is torch.ops.aten.view.dtype:
            raise CannotWiden(name)
        if name in RANDOM:
            return self._random(func, name, args, kwargs)
        written = [bool(a.alias_info and a.alias_info.is_write) for a in func._schema.arguments]
        if func.is_view:
            return func(*args, **kwargs)
        args = tuple(a if written[i] else tree_map(_wide, a) for i, a in enumerate(args))
        kwargs = {k: tree_map(_wide, v) for k, v in kwargs.items()}
        if kwargs.get("dtype") in NARROW:
            kwargs["dtype"] = torch.float64
        if self.disturb_seed is not None and name in PRODUCTS and self.rounding == ROUNDING[torch.float32]:
            args = tuple(self.disturb(a.clone(), IN_PARTS) if isinstance(a, Tensor) else a for a in args)
        result = ties.stable(func, args, kwargs) if name in ties.CHOOSING else func(*args, **kwargs)
        if self.disturb_seed is not None and name not in EXACT:
            tree_map(self.disturb, result)
        return result

    def disturb(self, value: Any, roundings: int = 1) -> Any:
        """Change a tensor in place by about one rounding of the narrow dtype, or by a few."""
        if isinstance(value, Tensor) and value.dtype in (torch.float64, torch.complex128) and value.numel():
            if value.device not in self.generators:
                self.generators[value.device] = torch.Generator(value.device).manual_seed(self.disturb_seed or 0)
            real = torch.view_as_real(value) if value.is_complex() else value
            if any(step == 0 and size > 1 for step, size in zip(real.stride(), real.shape, strict=True)):
                return value
            noise = torch.empty(real.shape, dtype=torch.float64, device=value.device)
            most = roundings * self.rounding
            noise.uniform_(-most, most, generator=self.generators[value.device])
            real.mul_(1 + noise)
        return value

    def _random(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        if name.endswith("_"):  # in place on a widened tensor: draw narrow, copy in
            target = args[0]
            drawn = torch.empty_like(target, dtype=self.narrow if target.is_floating_point() else target.dtype)
            func(drawn, *tree_map(self._narrowed, args[1:]), **kwargs)
            return target.copy_(drawn)
        if name == "native_dropout":
            value, probability = args[0], args[1]
            _, mask = func(self._narrowed(value), *args[1:], **kwargs)
            return _wide(value) * mask / (1 - probability), mask
        takes_dtype = any(a.name == "dtype" for a in func._schema.arguments)
        if takes_dtype and (kwargs.get("dtype") is None or kwargs["dtype"].is_floating_point):
            kwargs["dtype"] = self.narrow
        return tree_map(_wide, func(*tree_map(self._narrowed, args), **kwargs))

    def _narrowed(self, value: Any) -> Any:
        return value.to(self.narrow) if isinstance(value, Tensor) and value.dtype == torch.float64 else value


def _wide(value: Any) -> Any:
    return value.to(torch.float64) if isinstance(value, Tensor) and value.dtype in NARROW else value


@contextmanager
def double_by_default() -> Iterator[None]:
    """Let new tensors without a dtype be float64."""
    kept = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(kept)


@dataclass(frozen=True)
class Disturbance:
    """Rounding noise for these tensors and every step, drawn from a seed; as large as the dtype's own, or another."""

    tensors: list[Tensor]
    seed: int
    rounding: float | None = None


def run_wide(call: Callable[[], Any], narrow: torch.dtype, disturb: Disturbance | None = None) -> Any:
    """Run `call` in float64, with rounding noise where that is asked for."""
    mode = Widened(narrow, disturb.seed, disturb.rounding) if disturb else Widened(narrow)
    with torch.no_grad():
        for tensor in disturb.tensors if disturb else []:
            mode.disturb(tensor)
        with double_by_default(), mode:
            return call()


def twin(model: nn.Module, *, widen: bool) -> nn.Module:
    """Copy buffers and attributes, so that every call starts from the same state; parameters are shared or widened."""
    shared: dict[int, Any] = {}
    for parameter in model.parameters():
        if widen and parameter.is_floating_point():
            shared[id(parameter)] = nn.Parameter(parameter.detach().double(), requires_grad=False)
        elif not widen:
            shared[id(parameter)] = parameter
    twin = copy.deepcopy(model, shared)
    return twin.double() if widen else twin


def wide_copy(tensor: Tensor) -> Tensor:
    """Copy a tensor, floating point values widened."""
    wide = tensor.detach().clone()
    return wide.double() if wide.is_floating_point() else wide
