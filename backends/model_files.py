"""A model's name → its files on this machine, without the network, and those files → a model and its tokenizer."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

from backends import BackendUnavailable
from backends.gguf import converted
from backends.model_name import ModelName
from backends.safetensors import elements, is_whole

_SETTINGS = (
    "config.json", "generation_config.json", "model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "vocab.json",
)  # fmt: skip
"""What transformers reads beside the weights."""

_VOCABULARIES = ("tokenizer.json", "*.model", "vocab*", "*.tiktoken", "tekken.json")
"""The file, or one of the files, that every tokenizer has."""


def how_to_get(name: str) -> str:
    """Say how a model that is not here, or not whole, can be had."""
    if Path(name).expanduser().exists():
        return "copy or fetch its files once more"
    return f"--download fetches it, at the prompt /download {name}; or give --model a folder that holds a model"


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
        raise BackendUnavailable(f"{name} is not on this machine", how_to_get(name)) from fault


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


def load(wanted: ModelName, folder: Path, file: str | None, device: str) -> tuple[Any, Any]:
    """Load tokenizer and model; raise BackendUnavailable with what stands in the way."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        folder = converted(folder / file) if file else folder
        check_whole(folder, wanted.name)
        # bfloat16 is what today's weights are stored in; a GPU without it takes float16, a CPU computes float32 faster.
        gpu = torch.bfloat16 if device != "cpu" and torch.cuda.is_bf16_supported() else torch.float16
        dtype = torch.float32 if device == "cpu" else gpu
        spread = _check_memory(folder, device, wanted.bits / 8 if wanted.bits < 16 else dtype.itemsize)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        kind: dict[str, Any] = {"dtype": dtype, "local_files_only": True}
        if wanted.bits < 16:
            kind |= {"quantization_config": _quantised(wanted.bits, dtype), "device_map": {"": device}}
        elif spread:
            kind["device_map"] = "auto"
        model: Any = AutoModelForCausalLM.from_pretrained(folder, **kind)
        return tokenizer, (model if "device_map" in kind else model.to(device)).eval()
    except Exception as fault:
        raise unavailable(fault, wanted.name) from fault


def check_whole(folder: Path, name: str) -> None:
    """Refuse a model of which files are missing or cut off: a download that did not end."""
    cut = [file for file in _SETTINGS if (folder / file).is_file() and not _is_json(folder / file)]
    if cut:
        raise BackendUnavailable(f"{name} is only partly here: {cut[0]} is cut off, or no JSON", how_to_get(name))
    index = folder / "model.safetensors.index.json"
    files = [file.name for file in folder.glob("*.safetensors")]
    if index.is_file():
        files = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    absent = [file for file in files if not (folder / file).is_file()]
    cut = [file for file in files if file not in absent and not is_whole(folder / file)]
    if absent or cut:
        what = f"{len(absent)} of {len(files)} weight files are missing" if absent else f"{cut[0]} is cut off"
        raise BackendUnavailable(f"{name} is only partly here: {what}", how_to_get(name))
    if not files and not list(folder.glob("*.bin")):
        raise BackendUnavailable(f"{name} has no weights here", how_to_get(name))
    if not any(list(folder.glob(pattern)) for pattern in _VOCABULARIES):
        raise BackendUnavailable(f"{name} has no tokenizer here", how_to_get(name))


def _is_json(file: Path) -> bool:
    try:
        json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def _quantised(bits: int, dtype: Any) -> Any:
    """Return how bitsandbytes loads the weights; raise BackendUnavailable without it."""
    import importlib.util

    if importlib.util.find_spec("bitsandbytes") is None:
        raise BackendUnavailable(f"{bits}-bit weights need bitsandbytes", "pip install 'kernelllm[quantised]'")
    import transformers

    config: Any = transformers.BitsAndBytesConfig
    if bits == 8:
        return config(load_in_8bit=True)
    return config(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)


def _check_memory(folder: Path, device: str, itemsize: float) -> bool:
    """Refuse weights that cannot fit before a byte of them is loaded; return whether they need several GPUs."""
    import torch

    need = sum(elements(file) for file in folder.glob("*.safetensors")) * itemsize
    if device != "cpu":
        free = torch.cuda.mem_get_info()[0]
        everywhere = sum(torch.cuda.mem_get_info(card)[0] for card in range(torch.cuda.device_count()))
        if free < need < 0.9 * everywhere:
            return True
    else:
        lines = Path("/proc/meminfo").read_text().splitlines() if Path("/proc/meminfo").exists() else []
        free = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), int(need))
    if need > free:
        message = f"the weights need {need / 2**30:.1f} GB and {free / 2**30:.1f} GB are free on {device}"
        raise BackendUnavailable(message, "use MODEL#8bit or #4bit, a smaller model, or a server")
    return False


def unavailable(fault: BaseException, name: str = "the model") -> BackendUnavailable:
    """Say why a model cannot be used, in one line."""
    if isinstance(fault, BackendUnavailable):
        return fault
    reason = (str(fault).strip() or "no reason given").splitlines()[0]
    return BackendUnavailable(f"{name} cannot be used: {type(fault).__name__}: {reason}", "see its model card")
