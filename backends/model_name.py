"""What a person writes for a local model: a folder, a GGUF file or OWNER/NAME, with `#8bit` and the like behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from backends import BackendUnavailable

BITS = {"8bit": 8, "4bit": 4}
DECODING = ("compiled", "plain")


@dataclass(frozen=True)
class ModelName:
    """A local model: its name, how many bits its weights are loaded with, and how it is drawn from."""

    name: str
    bits: int = 16
    decoding: Literal["", "compiled", "plain"] = ""


def wants_raw_prompt(name: str) -> bool:
    """Tell KernelLLM by the last part of its name: tuned on one raw prompt, whatever chat template is beside it."""
    return "kernelllm" in name.rstrip("/").rpartition("/")[2].lower()


def from_anywhere(text: str) -> str:
    """Return the name as a process with another working directory understands it."""
    name, mark, flags = text.partition("#")
    path = Path(name).expanduser()
    return (str(path.absolute()) if path.exists() else name) + mark + flags


def read(text: str) -> ModelName:
    """Take a model's name apart; raise BackendUnavailable for a flag that does not exist."""
    name, _, flags = text.partition("#")
    bits, decoding = 16, ""
    for flag in filter(None, flags.split(",")):
        if flag in BITS:
            bits = BITS[flag]
        elif flag in DECODING:
            decoding = flag
        else:
            known = ", ".join((*BITS, *DECODING))
            raise BackendUnavailable(f"a local model has no option {flag!r}", f"there are {known}: MODEL#8bit")
    return ModelName(name, bits, decoding)  # type: ignore[arg-type]
