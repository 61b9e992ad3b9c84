"""What held a GPU's clock back while it was measured, asked of the driver's own library (NVML).

Not of nvidia-smi: starting that takes longer than the measurement.
"""

from __future__ import annotations

import ctypes
from typing import Any

_SM_CLOCK = 1  # NVML_CLOCK_SM
_REASONS = {
    0x04: "power limit",
    0x08: "hardware slowdown",
    0x20: "heat",
    0x40: "heat",
    0x80: "power brake",
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons that make a kernel slower; idling and set clocks are no news."""


class Power:
    """The driver's view of one GPU. `look` collects while the clock runs, `words` says what was seen."""

    def __init__(self, library: Any, device: Any) -> None:
        self._library, self._device = library, device
        self._reasons = 0
        self._lowest = 0

    def look(self) -> None:
        """Note what holds the clock back at this moment."""
        reasons = ctypes.c_ulonglong()
        ask = self._library.nvmlDeviceGetCurrentClocksThrottleReasons  # its newer name is missing in older drivers
        if ask(self._device, ctypes.byref(reasons)) == 0:
            self._reasons |= reasons.value
            clock = self._clock(self._library.nvmlDeviceGetClockInfo)
            self._lowest = min(self._lowest or clock, clock)

    def words(self) -> str:
        """Return what slowed the clock, "" when nothing did or nobody can tell."""
        found = dict.fromkeys(text for bit, text in _REASONS.items() if self._reasons & bit)
        if not found:
            return ""
        most = self._clock(self._library.nvmlDeviceGetMaxClockInfo)
        return f"GPU at {self._lowest} of {most} MHz ({', '.join(found)})"

    def _clock(self, ask: Any) -> int:
        megahertz = ctypes.c_uint()
        return megahertz.value if ask(self._device, _SM_CLOCK, ctypes.byref(megahertz)) == 0 else 0


def open_power(uuid: str) -> Power | None:
    """Open the driver's library for the GPU with this UUID; None where it cannot be had."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        device = ctypes.c_void_p()
        if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode(), ctypes.byref(device)):
            return None
    except (OSError, AttributeError):
        return None
    return Power(library, device)
