"""Values between processes: nested structure as JSON, tensors as raw bytes with dtype and shape. Never a pickle."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from verifier.tree import Tree, walk

Encoded = dict[str, Any]


class NotPlain(Exception):
    """A returned tensor is not an ordinary one: a subclass or a lazy stand-in may do its work later, or lie."""


def encode(tree: Tree) -> tuple[Encoded, list[Any]]:
    """Turn a value that was taken apart into JSON and blobs; raise NotPlain."""
    described, blobs = [], []
    for tensor in tree.tensors:
        if type(tensor) not in (Tensor, torch.nn.Parameter):
            raise NotPlain(f"a {type(tensor).__name__}, not a torch.Tensor")
        if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized:
            raise NotPlain(f"a {tensor.layout} tensor on {tensor.device}")
        dtype = str(tensor.dtype).removeprefix("torch.")
        described.append({"dtype": dtype, "shape": list(tensor.shape), "device": tensor.device.type})
        blobs.append(raw(tensor))
    return {"spec": tree.spec, "tensors": described}, blobs


def raw(tensor: Tensor) -> Any:
    """Return a copy of a tensor's elements as a buffer."""
    plain = tensor.detach().resolve_conj().resolve_neg().to("cpu", copy=True).contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else b""


def decode(encoded: Encoded, blobs: list[bytes]) -> Tree:
    """Put a value together again as a structure and plain CPU tensors; raise ValueError for what does not fit."""
    tensors = []
    for described, blob in zip(encoded["tensors"], blobs, strict=True):
        dtype = getattr(torch, described["dtype"], None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"unknown dtype {described['dtype']}")
        shape = [int(size) for size in described["shape"]]
        flat = torch.frombuffer(bytearray(blob), dtype=dtype) if blob else torch.empty(0, dtype=dtype)
        tensors.append(flat.reshape(shape))
    for _, node in walk(encoded["spec"]):
        if node["kind"] == "tensor" and not 0 <= node["at"] < len(tensors):
            raise ValueError("a tensor that was not sent")
    return Tree(encoded["spec"], tuple(tensors))
