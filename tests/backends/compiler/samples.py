"""PyTorch's own operator samples (OpInfo) as problems: a module without a constructor that calls one operator."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

LARGEST = 4096
"""Elements beyond which a sample is left out: the interpreter takes its time."""

Literal = (bool, int, float, str, type(None), torch.dtype)


@dataclass(frozen=True)
class Sample:
    """One call of one operator: the text of the problem, and the tensors it is called with."""

    operator: str
    index: int
    text: str
    inputs: tuple[torch.Tensor, ...]


def operators() -> list[OpInfo]:
    """List all that can be called as an expression: what has no rule is perhaps taken apart into what has."""
    return [info for info in op_db if _path(info)]


def samples(info: OpInfo, dtype: torch.dtype, most: int | None = None) -> Iterator[Sample]:
    """Make the operator's samples of a dtype, at most so many, spread over the list."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    step = max(1, math.ceil(len(found) / most)) if most else 1
    for index in range(0, len(found), step):
        made = _sample(info, index, found[index])
        if made is not None:
            yield made


def strided(sample: Sample) -> Sample:
    """Give the same call inputs whose memory has gaps and another order than their shape's."""
    return problem(sample.operator, sample.index, _call(sample.text), tuple(map(_strided, sample.inputs)))


def _strided(x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 0:
        return x
    wide = x.mT.contiguous().mT if x.dim() > 1 else x
    gaps = torch.stack([wide, wide], -1)
    return gaps[..., 0]


def _call(text: str) -> str:
    return text.split("        return ", 1)[1].split("\n", 1)[0]


def problem(operator: str, index: int, call: str, inputs: tuple[torch.Tensor, ...]) -> Sample:
    """Write a problem whose forward is one expression over x0, x1, ..."""
    names = [f"x{number}" for number in range(len(inputs))]
    made = ", ".join(f"torch.empty_strided({tuple(x.shape)}, {x.stride()}, dtype={x.dtype})" for x in inputs)
    text = (
        f"import torch\nimport torch.nn as nn\nfrom math import inf, nan\n\n\nclass Model(nn.Module):\n"
        f"    def forward(self, {', '.join(names)}):\n        return {call}\n\n\n"
        f"def get_inputs():\n    return [{made}]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    return Sample(operator, index, text, inputs)


def _sample(info: OpInfo, index: int, given: SampleInput) -> Sample | None:
    tensors: list[torch.Tensor] = []
    try:
        parts = [_text(value, tensors) for value in (given.input, *given.args)]
        parts += [f"{key}={_text(value, tensors)}" for key, value in given.kwargs.items()]
    except TypeError:
        return None
    if not tensors or sum(x.numel() for x in tensors) > LARGEST:
        return None
    name = info.name + (f"/{info.variant_test_name}" if info.variant_test_name else "")
    return problem(name, index, f"{_path(info)}({', '.join(parts)})", tuple(x.detach() for x in tensors))


def _text(value: Any, tensors: list[torch.Tensor]) -> str:
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            raise TypeError("sparse")
        tensors.append(value)
        return f"x{len(tensors) - 1}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_text(part, tensors) for part in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    if type(value) in Literal or isinstance(value, torch.dtype):
        return repr(value)
    raise TypeError(type(value).__name__)


def _path(info: OpInfo) -> str:
    """Write the operator as a Python expression, or "" where only its own module can."""
    for lead in ("torch", "torch.Tensor"):
        found: Any = eval(lead)
        for part in info.name.split("."):
            found = getattr(found, part, None)
        if callable(found):
            return f"{lead}.{info.name}"
    return ""
