"""A GGUF file → an ordinary model folder, made once and kept: it loads eight times faster from then on."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from backends import BackendUnavailable
from backends.elsewhere import messages, say

LARGE = 1 << 30
"""Bytes of a file above which its weights are kept as bfloat16 instead of float32."""

GROWTH = 4
"""A quantised file grows at most to this many times its size."""


def is_converted(file: Path) -> bool:
    """Tell whether the folder for this file exists."""
    return file.is_file() and (_place(file) / "config.json").is_file()


def converted(file: Path) -> Path:
    """Return the model folder for a GGUF file, converting it at the first time; raise BackendUnavailable."""
    place = _place(file)
    if (place / "config.json").is_file():
        return place
    _check_disk(file, place)
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=place.parent))
    try:
        _convert(file, unfinished)
        os.replace(unfinished, place)  # whole or not at all, also when two convert it at once
    except OSError:
        if not (place / "config.json").is_file():
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return place


def convert_elsewhere(file: Path) -> None:
    """Convert in a process of its own, which Ctrl-C ends at once; raise BackendUnavailable."""
    with closing(messages("gguf", str(file))) as told:
        for _ in told:
            pass


def main(file: str) -> None:
    """Be the process that converts."""
    try:
        converted(Path(file))
    except BackendUnavailable as fault:
        say(unavailable=[fault.message, fault.hint])
    except Exception as fault:
        message = f"{Path(file).name} cannot be converted: {type(fault).__name__}: {' '.join(str(fault).split())[:200]}"
        say(unavailable=[message, "is it a whole GGUF file?"])


def _convert(file: Path, folder: Path) -> None:
    import importlib.util

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    for package in ("gguf", "accelerate"):
        if importlib.util.find_spec(package) is None:
            raise BackendUnavailable(f"GGUF files need the package {package}", "pip install 'kernelllm[gguf]'")
    dtype = torch.bfloat16 if file.stat().st_size > LARGE else torch.float32
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)
    model: Any = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, local_files_only=True, dtype=dtype
    )
    # The weights are plain numbers by now, but transformers still takes the model for a quantised one.
    model.hf_quantizer, model.is_quantized = None, False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)


def _check_disk(file: Path, place: Path) -> None:
    need, existing = file.stat().st_size * GROWTH, place.parent
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if need > free:
        message = f"converting {file.name} may need {need / 1e9:.1f} GB and {free / 1e9:.1f} GB are free in {existing}"
        raise BackendUnavailable(message, "make room, or serve the file with llama.cpp and use --model llama.cpp")


def _place(file: Path) -> Path:
    """Name the folder by the file's content: its size, and its beginning and end."""
    mark = hashlib.sha256(str(file.stat().st_size).encode())
    with file.open("rb") as stream:
        mark.update(stream.read(1 << 20))
        stream.seek(max(file.stat().st_size - (1 << 20), 0))
        mark.update(stream.read(1 << 20))
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("kernelllm", appauthor=False)) / "gguf" / f"{file.stem[:40]}-{mark.hexdigest()[:16]}"
