"""PyTorch's own module samples (ModuleInfo) as problems: the constructor makes a layer, forward calls it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_modules import ModuleInfo, module_db

from tests.backends.compiler.samples import LARGEST, Sample

SLOW = re.compile(r"nn\.(RNN|GRU|LSTM|Transformer|MultiheadAttention|Lazy|CTC|Circular|LinearCross)")


def modules() -> list[ModuleInfo]:
    """List the layers, without recurrent ones and whole networks, which are not the compiler's to convert."""
    return [info for info in module_db if not SLOW.match(info.name)]


def module_samples(
    info: ModuleInfo, dtype: torch.dtype, *, training: bool, most: int | None = None
) -> Iterator[Sample]:
    """Make a layer's samples in training or in evaluation mode, at most so many."""
    torch.manual_seed(0)
    found = list(info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=False, training=training))
    step = max(1, -(-len(found) // most)) if most else 1
    for index in range(0, len(found), step):
        made = _sample(info, index, found[index], dtype, training)
        if made is not None:
            yield made


def _sample(info: ModuleInfo, index: int, given: Any, dtype: torch.dtype, training: bool) -> Sample | None:
    if given.forward_input is None:
        return None
    built, called = given.constructor_input, given.forward_input
    tensors = [x.detach() for x in [*called.args, *called.kwargs.values()] if isinstance(x, torch.Tensor)]
    if len(tensors) != len(called.args) + len(called.kwargs) or sum(x.numel() for x in tensors) > LARGEST:
        return None
    names = [f"x{number}" for number in range(len(tensors))]
    first, rest = names[: len(called.args)], names[len(called.args) :]
    passed = [*first, *(f"{key}={name}" for key, name in zip(called.kwargs, rest, strict=True))]
    arguments = ", ".join([*map(_text, built.args), *(f"{key}={_text(value)}" for key, value in built.kwargs.items())])
    made = ", ".join(f"torch.empty_strided({tuple(x.shape)}, {x.stride()}, dtype={x.dtype})" for x in tensors)
    mode = "" if training else ".eval()"
    text = (
        f"import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n        self.layer = {info.name}({arguments}).to({dtype})\n"
        f"        self.train({training})\n\n"
        f"    def forward(self, {', '.join(names)}):\n        return self.layer({', '.join(passed)})\n\n\n"
        f"def get_inputs():\n    return [{made}]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    return Sample(info.name + mode, index, text, tuple(tensors))


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"torch.tensor({value.tolist()}, dtype={value.dtype})"
    return repr(value)
