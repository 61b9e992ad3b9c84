"""Calls that stay in PyTorch, written the way a person would."""

from __future__ import annotations

import re
from typing import Any

import torch

from backends.compiler.expression import Scalar
from backends.compiler.host import Host
from backends.compiler.ir import Value

FUNCTIONAL = {
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "max_pool2d",
    "max_pool3d",
    "max_pool1d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "pixel_shuffle",
    "pixel_unshuffle",
    "dropout",
    "one_hot",
}
"""Operators whose torch.nn.functional form takes the schema's own arguments in the schema's own order."""

TENSOR_METHODS = {
    "select",
    "narrow",
    "permute",
    "transpose",
    "expand",
    "expand_as",
    "t",
    "diagonal",
    "unfold",
    "as_strided",
    "view_as",
    "chunk",
    "split",
    "unbind",
    "movedim",
    "contiguous",
    "clone",
    "masked_select",
    "repeat",
}

FREE = {
    "chunk",
    "split",
    "split_with_sizes",
    "unbind",
    "unsafe_chunk",
    "unsafe_split",
    "diagonal",
    "unfold",
    "narrow",
    "select",
    "slice",
    "permute",
    "transpose",
    "t",
    "view",
    "reshape",
    "expand",
    "expand_as",
    "as_strided",
    "squeeze",
    "unsqueeze",
    "flatten",
    "unflatten",
    "movedim",
    "detach",
    "alias",
    "contiguous",
    "clone",
    "empty",
    "empty_like",
    "zeros",
    "zeros_like",
    "ones",
    "ones_like",
    "full",
    "full_like",
    "arange",
    "linspace",
    "new_zeros",
    "new_ones",
    "new_empty",
    "new_full",
    "eye",
    "scalar_tensor",
    "tensor_split",
    "hsplit",
    "vsplit",
    "swapaxes",
    "view_as",
    "real",
    "imag",
    "mT",
    "numpy_T",
    "lift_fresh_copy",
    "empty_permuted",
    "sym_size",
    "to",
}
"""Views, allocations and metadata: no work that a kernel would be written for."""


ALLOCATIONS = {
    "empty_like",
    "zeros_like",
    "ones_like",
    "full_like",
    "new_zeros",
    "new_ones",
    "new_empty",
    "new_full",
    "clone",
}
"""Of these, what takes a tensor and gives memory of its own."""


def allocates(target: Any) -> bool:
    """True for an operator whose result shares no memory with what it takes."""
    return _name(target) in ALLOCATIONS


def is_work(target: Any) -> bool:
    """True for an operator that computes with tensors; sizes are computed by Python's own."""
    name = _name(target)
    return bool(name) and name not in FREE and not name.startswith("sym_")


def _name(target: Any) -> str:
    return str(target._schema.name).removeprefix("aten::") if isinstance(target, torch._ops.OpOverload) else ""


def call_text(target: Any, arguments: Any, keywords: Any, host: Host) -> tuple[str, list[Value]]:
    """Write a call with {0}, {1}, ... for its tensors; return the tensors too."""
    operands: list[Value] = []

    def show(value: Any) -> str:
        if isinstance(value, Value):
            if value not in operands:
                operands.append(value)
            return f"{{{operands.index(value)}}}"
        if isinstance(value, Scalar):
            return value.host
        if isinstance(value, torch.SymInt):
            return host.size(value)
        if isinstance(value, (list, tuple)):
            inner = ", ".join(map(show, value))
            return f"[{inner}]"
        if isinstance(value, torch.device):
            return f"{_device_of(operands, host)}.device"
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            return f'float("{value}")'
        return repr(value).replace("{", "{{").replace("}", "}}")

    name = _name(target)
    shown = [show(value) for value in arguments]
    named = [
        f"{key}={show(value)}"
        for key, value in keywords.items()
        if not (key == "pin_memory" and value in (None, False))
    ]
    if name in ("arange", "zeros", "ones", "full", "empty", "eye", "linspace", "scalar_tensor", "rand", "randn"):
        return _factory(name, shown, named, keywords, host), operands
    if name == "embedding" and len(shown) >= 2:  # the rest of its arguments only matters to gradients
        return f"F.embedding({shown[1]}, {shown[0]})", operands
    if name in FUNCTIONAL and not named:
        return f"F.{name}({', '.join(shown)})", operands
    if name in TENSOR_METHODS and shown and shown[0].startswith("{"):
        return f"{shown[0]}.{name}({', '.join([*shown[1:], *named])})", operands
    if name in ("cat", "stack"):
        return f"torch.{name}({', '.join([*shown, *named])})", operands
    path = str(target).removeprefix("aten.")
    return f"torch.ops.aten.{path}({', '.join([*shown, *named])})", operands


def constant_text(tensor: torch.Tensor, host: Host) -> str:
    """Write a small tensor out, on the inputs' device."""
    numbers = re.sub(r"\b(inf|nan)\b", r'float("\1")', repr(tensor.tolist() if tensor.dim() else shortest(tensor)))
    return f"torch.tensor({numbers}, dtype={tensor.dtype}, device={_first_tensor(host)}.device)"


def shortest(tensor: torch.Tensor) -> float | int | bool:
    """Read a single number as the shortest text that means it: 0.1, not 0.10000000149."""
    number: float | int | bool = tensor.item()
    return float(str(tensor.numpy())) if tensor.dtype == torch.float32 else number


def _factory(name: str, shown: list[str], named: list[str], keywords: Any, host: Host) -> str:
    """An allocation lands on the inputs' device, wherever the file is run."""
    kept = [text for text in named if not text.startswith(("device=", "layout="))]
    return f"torch.{name}({', '.join([*shown, *kept, f'device={_first_tensor(host)}.device'])})"


def _first_tensor(host: Host) -> str:
    names = [text for text in host.arguments if text not in host.constants]
    if names:
        return names[0]
    return "next(self.parameters())"


def _device_of(operands: list[Value], host: Host) -> str:
    return "{0}" if operands else _first_tensor(host)
