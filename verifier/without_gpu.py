"""Lets a kernel file written for a GPU run on the CPU's interpreter: device="cuda" means the CPU there.

Only what host code around a kernel commonly asks for; whatever else needs a driver raises, and is then not judged.
"""

from __future__ import annotations

import contextlib
import os
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_NO_DRIVER = ("no NVIDIA driver", "not compiled with CUDA", "active drivers", "No CUDA GPUs", "libcuda")
_H100 = {
    "name": "no GPU",
    "multi_processor_count": 132,
    "major": 9,
    "minor": 0,
    "total_memory": 80 << 30,
    "warp_size": 32,
    "shared_memory_per_block_optin": 232448,
    "max_threads_per_multi_processor": 2048,
    "regs_per_multiprocessor": 65536,
}


def install() -> None:
    """Make the usual questions to torch.cuda answerable in this process."""
    answers: dict[str, Any] = {
        "synchronize": lambda *args, **kwargs: None,
        "current_device": lambda: 0,
        "device": lambda *args: contextlib.nullcontext(),
        "device_of": lambda *args: contextlib.nullcontext(),
        "get_device_properties": lambda *args: SimpleNamespace(**_H100),
        "get_device_capability": lambda *args: (9, 0),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    torch.Tensor.is_cuda = property(lambda tensor: True)  # type: ignore[assignment]  # many a launcher begins with `assert x.is_cuda`


def say_nothing_of_it() -> None:
    """Have Triton interpret although the environment no longer says so: it is none of the kernel file's business."""
    import triton

    triton.knobs.runtime.interpret = True
    os.environ.pop("TRITON_INTERPRET", None)


def needs_gpu(message: str) -> bool:
    """Whether an error says that a driver is missing, which is not the kernel's fault."""
    return any(words in message for words in _NO_DRIVER)


class CpuForCuda(TorchFunctionMode):
    """Reads "cuda" as "cpu" wherever host code names a device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = {key: _cpu(value) if key == "device" else value for key, value in (kwargs or {}).items()}
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.to:
            args = tuple(_cpu(arg) for arg in args)
        return func(*args, **named)


def _cpu(device: Any) -> Any:
    if isinstance(device, (str, torch.device)) and str(device).startswith("cuda"):
        return torch.device("cpu")
    return device
