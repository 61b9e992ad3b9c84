"""A GGUF file → an ordinary model folder, made once and kept: it loads eight times faster from then on."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from backends import BackendUnavailable
from backends.elsewhere import messages, say

LARGE = 1 << 30
"""Bytes of a file above which its weights are kept as bfloat16 instead of float32."""

BESIDE = 16 << 20
"""Bytes that the tokenizer and the configuration may take beside the weights."""

_ELSEWHERE = "serve the file with llama.cpp and use --model llama.cpp"
_ROOM = f"make room, or {_ELSEWHERE}"


def is_converted(file: Path) -> bool:
    """Tell whether the folder for this file exists."""
    return file.is_file() and (_place(file) / "config.json").is_file()


def converted(file: Path) -> Path:
    """Return the model folder for a GGUF file, converting it at the first time; raise BackendUnavailable."""
    place = _place(file)
    return place if (place / "config.json").is_file() else _made(file, place, _convert)


def convert_elsewhere(file: Path) -> None:
    """Convert in a process of its own, which Ctrl-C ends at once; raise BackendUnavailable."""

    def convert(file: Path, folder: Path) -> None:
        with closing(messages("gguf", str(file), str(folder))) as told:
            for _ in told:
                pass

    _made(file, _place(file), convert)


def main(file: str, folder: str) -> None:
    """Be the process that converts."""
    try:
        _convert(Path(file), Path(folder))
    except BackendUnavailable as fault:
        say(unavailable=[fault.message, fault.hint])
    except Exception as fault:
        said = " ".join(str(fault).split())[:200]
        if "No space left" in said:  # the writer of the weights raises no OSError
            say(unavailable=[f"the disk became full while {Path(file).name} was converted", _ROOM])
        else:
            message = f"{Path(file).name} cannot be converted: {type(fault).__name__}: {said}"
            say(unavailable=[message, _ELSEWHERE])


def _made(file: Path, place: Path, convert: Callable[[Path, Path], None]) -> Path:
    """Fill a folder beside the place and move it there: whole or not at all, also when two convert it at once."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=place.parent))
    except OSError as fault:
        message = f"what {file.name} is converted to cannot be kept in {place.parent}: {fault.strerror}"
        raise BackendUnavailable(message, "set XDG_CACHE_HOME to a folder that can be written") from fault
    try:
        convert(file, unfinished)
        os.replace(unfinished, place)
    except OSError:
        if not (place / "config.json").is_file():
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return place


def _check_packages() -> None:
    import importlib.util

    for package in ("gguf", "accelerate"):
        if importlib.util.find_spec(package) is None:
            raise BackendUnavailable(f"GGUF files need the package {package}", "pip install 'kernelllm[gguf]'")


def _numbers(file: Path) -> int:
    """Count the numbers in a file; raise BackendUnavailable where it is none, or ends early."""
    from gguf import GGUFReader

    try:
        return sum(int(tensor.n_elements) for tensor in GGUFReader(file).tensors)
    except (ValueError, IndexError, OSError) as fault:
        said = " ".join(str(fault).split())[:200]
        message = f"{file.name} is no GGUF file, or a part of one: {said}"
        raise BackendUnavailable(message, "copy or fetch it once more") from fault


def _convert(file: Path, folder: Path) -> None:
    _check_packages()
    dtype, itemsize = ("bfloat16", 2) if file.stat().st_size > LARGE else ("float32", 4)
    _check_disk(file, folder, _numbers(file) * itemsize + BESIDE)
    from transformers import AutoModelForCausalLM, AutoTokenizer

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


def _check_disk(file: Path, folder: Path, need: int) -> None:
    free = shutil.disk_usage(folder).free
    if need > free:
        place = folder.parent
        message = f"{file.name} takes {need / 1e9:.1f} GB when converted, and {free / 1e9:.1f} GB are free in {place}"
        raise BackendUnavailable(message, _ROOM)


def _place(file: Path) -> Path:
    """Name the folder by the file's content: its size, and its beginning and end."""
    mark = hashlib.sha256(str(file.stat().st_size).encode())
    with file.open("rb") as stream:
        mark.update(stream.read(1 << 20))
        stream.seek(max(file.stat().st_size - (1 << 20), 0))
        mark.update(stream.read(1 << 20))
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("kernelllm", appauthor=False)) / "gguf" / f"{file.stem[:40]}-{mark.hexdigest()[:16]}"
