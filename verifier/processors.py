"""How many processors this process may use, and how long a process waited for one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

ENOUGH = 4
"""Processors from which on further children of a candidate are a gain: below, they only take turns with the first."""
QUOTA = Path("/sys/fs/cgroup/cpu.max")


def processors() -> int:
    """Count the processors that may work for us at the same time: all, or those we are pinned to or granted."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # "max 100000" where nothing is withheld
        granted, period = QUOTA.read_text().split()
        found = min(found, int(granted) // int(period))
    return max(found, 1)


def delayed(pid: int) -> float:
    """Return the seconds that a process was ready to run and had no processor; 0 where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    return 0.0
