"""What the header of a weights file says: how many numbers it holds, and whether all of them are there."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any


def elements(file: Path) -> int:
    """Count the numbers of a safetensors file."""
    return sum(math.prod(entry["shape"]) for name, entry in _header(file)[0].items() if name != "__metadata__")


def is_whole(file: Path) -> bool:
    """Tell whether the file is as long as its header says."""
    try:
        header, start = _header(file)
    except (ValueError, OSError):
        return False
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    return file.stat().st_size >= start + max(ends, default=0)


def _header(file: Path) -> tuple[dict[str, Any], int]:
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(size))
    return header, 8 + size
