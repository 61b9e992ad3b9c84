"""The same inputs laid out otherwise in memory: transposed, part of a wider tensor, expanded, channels last.

A kernel sees an address. One that neither looks at strides nor asks for contiguous memory reads other numbers there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from verifier.tree import flatten, map_tensors

AS_STORED = " as stored"
"""Behind a layout's name: what somebody reads there who takes it for contiguous."""


def relaid(layout: str, inputs: Any) -> Any:
    """Lay out every contiguous tensor otherwise, if it has that layout; values stay, but for an expanded one's rows."""
    change = LAYOUTS[layout.removesuffix(AS_STORED)]
    if not _apart(flatten(inputs).tensors):
        return inputs

    def changed(tensor: Tensor) -> Tensor:
        if tensor.layout is not torch.strided or not tensor.is_contiguous() or not tensor.numel():
            return tensor
        new = change(tensor)
        return _as_stored(new) if layout.endswith(AS_STORED) else new

    return map_tensors(changed, inputs)


def possible(inputs: tuple[Tensor, ...]) -> list[str]:
    """List the layouts that change anything about these inputs."""
    return [name for name in LAYOUTS if any(not t.is_contiguous() for t in relaid(name, list(inputs)))]


def _apart(tensors: tuple[Tensor, ...]) -> bool:
    """Whether no two inputs share memory: that would be lost."""
    places = [tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()]
    return len(set(places)) == len(places)


def _as_stored(tensor: Tensor) -> Tensor:
    """Return the first numbers of a tensor's memory in its shape."""
    flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())
    return flat[: tensor.numel()].view(tensor.shape).clone()


def _transposed(tensor: Tensor) -> Tensor:
    if tensor.dim() < 2:
        return tensor
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)


def _sliced(tensor: Tensor) -> Tensor:
    """Put it beside other numbers of its own: as one of two chunks of every row, or every other number of a vector."""
    if not tensor.dim():
        return tensor
    others = tensor.flip(0, -1) if tensor.dim() > 1 else tensor.flip(0)
    if tensor.dim() == 1:
        return torch.stack((tensor, others), dim=-1)[:, 0]
    return torch.cat((tensor, others), dim=-1)[..., : tensor.shape[-1]]


def _expanded(tensor: Tensor) -> Tensor:
    """Repeat the first row without memory for the others; behind it lie other numbers, so that nobody leaves it."""
    if tensor.dim() < 2 or tensor.shape[0] < 2:
        return tensor
    flat = torch.cat((tensor[:1], tensor.flip(0)[: len(tensor) - 1])).reshape(-1)
    return flat.as_strided(tensor.shape, (0, *tensor.stride()[1:]))


def _channels_last(tensor: Tensor) -> Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.contiguous(memory_format=formats[tensor.dim()]) if tensor.dim() in formats else tensor


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": _transposed,
    "sliced": _sliced,
    "expanded": _expanded,
    "channels-last": _channels_last,
}
