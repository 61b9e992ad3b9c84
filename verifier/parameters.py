"""Parameters that hide nothing: a weight of ones or a bias of zeros is moved away from its initial value."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn

SPREAD = 0.25  # of the initial scale: enough to show, small enough to keep a network's activations sane
ZERO_SCALE = 0.1  # for what starts as zeros


@torch.no_grad()
def randomise(model: nn.Module, seed: int) -> None:
    """Move parameters and running statistics in place, by name and seed; tied weights stay tied.

    Other buffers (index tables, masks, rotary caches) are left as constructed: a kernel may fairly rebuild them.
    """
    for name, parameter in model.named_parameters():  # lists a tied weight once
        if parameter.is_floating_point() and parameter.numel():
            parameter.copy_(_moved(parameter, _generator(parameter, seed, name)))
    for name, buffer in model.named_buffers():
        if name.rpartition(".")[2] in ("running_mean", "running_var") and buffer.numel():
            buffer.copy_(_moved(buffer, _generator(buffer, seed, name)))


def _generator(tensor: Tensor, seed: int, name: str) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return torch.Generator(tensor.device).manual_seed(int.from_bytes(digest[:6], "little"))


def _moved(tensor: Tensor, generator: torch.Generator) -> Tensor:
    dtype = tensor.dtype if tensor.dtype in (torch.float32, torch.float64) else torch.float32
    noise = torch.randn(tensor.shape, generator=generator, device=tensor.device, dtype=dtype)
    low, high = tensor.aminmax()
    if not (torch.isfinite(low) and torch.isfinite(high)):
        return tensor  # -inf in a learned mask means something
    if low == high == 0:
        return ZERO_SCALE * noise
    if low > 0:
        return tensor * torch.exp(SPREAD * noise.clamp(-2, 2))  # a variance or a temperature stays positive
    return tensor * (1 + SPREAD * noise.clamp(-2, 2))  # zeros that were put there (a padding row) stay zero
