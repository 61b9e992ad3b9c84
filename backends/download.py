"""Fetches a model from the Hugging Face hub, only after the person said so: size and free disk first, then progress.

What was fetched when it is stopped is kept, and the next time goes on from there.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Generator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from backends import BackendUnavailable
from backends.elsewhere import messages, say

UNWANTED = ("*.pth", "original/*", "*.msgpack", "*.h5", "*.onnx", "onnx/*", "*.gguf", "*.ot")
"""The same weights in other forms."""

TICK = 0.5
RESERVE = 1 << 30
"""Bytes of disk that are left to others."""


@dataclass(frozen=True)
class Size:
    """What a model takes and what is there, in bytes; `here` is what was fetched before."""

    total: int
    here: int
    free: int
    place: str

    def __str__(self) -> str:
        left = self.total - self.here
        return f"{left / 1e9:.2f} GB to fetch, {self.free / 1e9:.0f} GB are free in {self.place}"


def size(name: str) -> Size:
    """Ask the hub how large a model is; raise BackendUnavailable."""
    with closing(messages("download", name, "size")) as told:
        for message in told:
            if "total" in message:
                return Size(**message)
    raise BackendUnavailable(f"the hub does not say how large {name} is", "see its page there")


def fetch(name: str) -> Generator[str, None, None]:
    """Fetch a model and yield how far it is, in words; raise BackendUnavailable. Closing ends the fetching."""
    total = 0
    with closing(messages("download", name, "fetch")) as told:
        for message in told:
            if "total" in message:
                known = Size(**message)
                total = known.total
                if total - known.here + RESERVE > known.free:
                    raise BackendUnavailable(f"{name} does not fit: {known}", "make room, or set HF_HOME elsewhere")
                yield f"fetching {name}: {known}"
            elif "done" in message:
                yield f"fetching {name}: {min(message['done'] / max(total, 1), 1):.0%} of {total / 1e9:.2f} GB"


def main(name: str, what: str) -> None:
    """Be the process that fetches, or with "size" only looks."""
    os.environ |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.file_download import repo_folder_name

    place = Path(constants.HF_HUB_CACHE)
    blobs = place / repo_folder_name(repo_id=name, repo_type="model") / "blobs"
    try:
        info = HfApi().model_info(name, files_metadata=True, timeout=20)
        total = sum(file.size or 0 for file in info.siblings or [] if not _unwanted(file.rfilename))
        say(total=total, here=_held(blobs), free=shutil.disk_usage(_existing(place)).free, place=str(place))
        if what == "fetch":
            over = threading.Event()
            threading.Thread(target=_tick, args=(blobs, over), daemon=True).start()
            snapshot_download(name, ignore_patterns=list(UNWANTED))
            over.set()
    except Exception as fault:
        say(unavailable=_explained(name, fault))


def _explained(name: str, fault: Exception) -> tuple[str, str]:
    kinds = {kind.__name__ for kind in type(fault).__mro__}
    if "GatedRepoError" in kinds:
        return f"{name} is given to those who accepted its terms", "accept them on its page, then `hf auth login`"
    if "RepositoryNotFoundError" in kinds:
        return f"the hub has no model {name}, or only for others", "check the name; `hf auth login` for private ones"
    if kinds & {"HFValidationError", "ValueError"}:
        return f"{name} is no model's name", "give OWNER/NAME"
    if isinstance(fault, OSError) and fault.errno == 28:
        return f"the disk is full while fetching {name}", "make room and try again; it goes on"
    return f"{name} cannot be fetched: {' '.join(str(fault).split())[:200]}", "is there a network? try again"


def _unwanted(file: str) -> bool:
    from fnmatch import fnmatch

    return any(fnmatch(file, pattern) for pattern in UNWANTED)


def _tick(blobs: Path, over: threading.Event) -> None:
    while not over.wait(TICK):
        say(done=_held(blobs))


def _held(blobs: Path) -> int:
    held = 0
    for file in blobs.glob("*"):
        with suppress(OSError):
            held += file.stat().st_size
    return held


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
