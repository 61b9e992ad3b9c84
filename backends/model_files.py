"""A model's name → its files on this machine, without the network, and those files → a model and its tokenizer."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path
from typing import Any

from backends import BackendUnavailable

DOWNLOAD = "download it once with `hf download {name}`, or give --model a folder that holds a model"


def find(name: str) -> tuple[Path, str | None]:
    """Return the folder of a model, and its file for GGUF, without the network; raise BackendUnavailable."""
    path = Path(name).expanduser()
    if path.is_file() and path.suffix == ".gguf":
        return path.parent, path.name
    if path.is_dir():
        if (path / "config.json").is_file():
            return path, None
        raise BackendUnavailable(f"{name} holds no model (no config.json)", "name the folder with config.json")
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") != 1:
        raise BackendUnavailable(f"there is no model at {name}", "give a folder, a .gguf file, or OWNER/NAME")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True)), None
    except (LocalEntryNotFoundError, HFValidationError) as fault:
        raise BackendUnavailable(f"{name} is not on this machine", DOWNLOAD.format(name=name)) from fault


def own_template(folder: Path) -> str | None:
    """Read PROMPT_TEMPLATE from the model folder's kernelllm.py, as text: nothing is executed."""
    script = folder / "kernelllm.py"
    if not script.is_file():
        return None
    for node in ast.parse(script.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name("PROMPT_TEMPLATE")], value=ast.Constant(str(text))):
                return text
    return None


def device_named(device: str) -> str:
    """Return the device that `auto` stands for here; raise BackendUnavailable for a GPU that is not there."""
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise BackendUnavailable("there is no usable GPU here", "use --device cpu")
    return device


def load(name: str, folder: Path, file: str | None, device: str) -> tuple[Any, Any]:
    """Load tokenizer and model; raise BackendUnavailable with what stands in the way."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # bfloat16 is what today's weights are stored in; a GPU without it takes float16, a CPU computes float32 faster.
    dtype = torch.float32 if device == "cpu" else torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    kind: dict[str, Any] = {"gguf_file": file} if file else {}
    try:
        _check_memory(folder, device, dtype.itemsize)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, **kind)
        model: Any = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=dtype, **kind)
        return tokenizer, model.to(device).eval()
    except Exception as fault:
        raise unavailable(fault, name) from fault


def _check_memory(folder: Path, device: str, itemsize: int) -> None:
    """Refuse weights that cannot fit before a byte of them is loaded."""
    import torch

    need = sum(_elements(file) for file in folder.glob("*.safetensors")) * itemsize
    if device != "cpu":
        free = torch.cuda.mem_get_info()[0]
    else:
        lines = Path("/proc/meminfo").read_text().splitlines() if Path("/proc/meminfo").exists() else []
        free = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), need)
    if need > free:
        message = f"the weights need {need / 2**30:.1f} GB and {free / 2**30:.1f} GB are free on {device}"
        raise BackendUnavailable(message, "use a smaller or quantised model, or a server")


def _elements(file: Path) -> int:
    """Count the weights of a safetensors file by its header."""
    with file.open("rb") as stream:
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")


def unavailable(fault: BaseException, name: str = "the model") -> BackendUnavailable:
    """Say why a model cannot be used, in one line."""
    if isinstance(fault, BackendUnavailable):
        return fault
    reason = (str(fault).strip() or "no reason given").splitlines()[0]
    return BackendUnavailable(f"{name} cannot be used: {type(fault).__name__}: {reason}", "see its model card")
