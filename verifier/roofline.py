"""What the memory and the arithmetic of a device allow for a problem, where the device is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

LAUNCH_MS = 0.004
"""A kernel launch takes this long however little it does (measured on an H200)."""
BEYOND_CACHE = 128 << 20
"""Bytes that no L2 cache of today holds: below this a kernel may end before its output is in memory."""


@dataclass(frozen=True)
class Device:
    """Rates that were reached, not those of the data sheet: bytes a second, and operations a second by precision."""

    bytes_per_s: float
    flops_per_s: dict[str, float]


DEVICES: dict[str, Device] = {
    # Copy 4.3 TB/s and bf16 790 TFLOP/s measured; fp32 and TF32 are what the arithmetic units allow.
    "H200": Device(4.3e12, {"float32": 67e12, "tf32": 400e12, "bfloat16": 790e12, "float16": 790e12}),
}


def known(name: str) -> Device | None:
    """Find a device by the name CUDA gives it."""
    return next((device for key, device in DEVICES.items() if key in name), None)


def bound_ms(moved_bytes: float, flops: float, precision: str, name: str) -> float | None:
    """Return the least milliseconds for moving the bytes once and doing the operations, None for unknown devices."""
    device = known(name)
    if device is None:
        return None
    rate = device.flops_per_s.get(precision, device.flops_per_s["float32"])
    return max(moved_bytes / device.bytes_per_s * 1e3, flops / rate * 1e3, LAUNCH_MS)


def share(kernel_ms: float, moved_bytes: float, flops: float, precision: str, name: str) -> float | None:
    """Return which part (0 to 1) of what the device allows the kernel reaches, None where that is not known.

    A kernel that beats the bound (it splits fp32 into faster formats, or need not read all) has reached 1.
    """
    bound = bound_ms(moved_bytes, flops, precision, name)
    return None if bound is None or kernel_ms <= 0 else min(bound / kernel_ms, 1.0)


def impossible(kernel_ms: float, output_bytes: float, name: str) -> str | None:
    """Say why a time cannot be true: outputs that no cache holds must at least be written once."""
    device = known(name)
    if device is None or output_bytes < BEYOND_CACHE:
        return None
    least = output_bytes / device.bytes_per_s * 1e3
    if kernel_ms >= 0.7 * least:  # the memory's own peak is 1.12 times the measured copy
        return None
    return f"{kernel_ms:.3f} ms is too short to write {output_bytes / 1e9:.1f} GB (at least {least:.3f} ms)"


def bytes_once(tensors: Iterable[Any]) -> int:
    """Return the bytes of the tensors, memory that several of them share counted once."""
    sizes: dict[int, int] = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        used = min(tensor.numel() * tensor.element_size(), storage.nbytes())
        sizes[storage.data_ptr()] = max(sizes.get(storage.data_ptr(), 0), used)
    return sum(sizes.values())


def counted_flops(call: Callable[..., Any], *inputs: Any) -> int:
    """Run the reference once and count the operations of its matrix products and convolutions."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        call(*inputs)
    return int(counter.get_total_flops())
