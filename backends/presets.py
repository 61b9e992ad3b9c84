"""Where well-known servers answer, under which variable their key is, and what a person writes to mean one.

`NAME#MODEL` or `http://HOST/v1#MODEL`; an address that ends in /completions is asked for raw completions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from backends import BackendUnavailable
from backends.model_name import wants_raw_prompt

OWN_KEY = "KERNELLLM_API_KEY"


@dataclass(frozen=True)
class Preset:
    """A server that people run or rent. `key` names the variable of its key; local ones need none."""

    address: str
    key: str = ""


PRESETS: Mapping[str, Preset] = {
    "vllm": Preset("http://127.0.0.1:8000/v1"),
    "sglang": Preset("http://127.0.0.1:30000/v1"),
    "llama.cpp": Preset("http://127.0.0.1:8080/v1"),
    "ollama": Preset("http://127.0.0.1:11434/v1"),
    "lmstudio": Preset("http://127.0.0.1:1234/v1"),
    "deepseek": Preset("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "openai": Preset("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openrouter": Preset("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
}

_HINT = f"--model http://HOST:PORT/v1#MODEL, or one of {', '.join(PRESETS)}"


@dataclass(frozen=True)
class Address:
    """A server's address taken apart. `raw` asks for completions of a text instead of a chat."""

    secure: bool
    host: str
    path: str
    model: str = ""
    raw: bool = False

    @property
    def name(self) -> str:
        """What the person is told: the host, without what may be secret."""
        return self.host

    @property
    def url(self) -> str:
        """The address without the model's name."""
        return f"{'https' if self.secure else 'http'}://{self.host}{self.path}"


def is_server(model: str) -> bool:
    """Tell whether the text means a server rather than a model of this machine."""
    return model.startswith(("http://", "https://")) or model.partition("#")[0] in PRESETS


def is_local(address: Address) -> bool:
    """Tell whether the server runs on this machine."""
    host = urlsplit(f"//{address.host}").hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def read(text: str | None) -> Address:
    """Take an address apart; raise BackendUnavailable for what is none."""
    start, _, model = (text or "").partition("#")
    try:
        parts = urlsplit(PRESETS[start].address if start in PRESETS else start)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise BackendUnavailable(f"{text} is no server's address" if text else "no server's address was given", _HINT)
    path, raw = parts.path.rstrip("/"), False
    for ending in ("/chat/completions", "/completions"):
        if path.endswith(ending):
            path, raw = path.removesuffix(ending), ending == "/completions"
            break
    host = parts.netloc.rpartition("@")[2]
    return Address(parts.scheme == "https", host, path, model, raw or wants_raw_prompt(model))


def key_of(address: Address) -> str | None:
    """Return the key for a server; each company's key goes to its own address alone."""
    for preset in PRESETS.values():
        if preset.key and preset.address.startswith("https://") == address.secure:
            own = urlsplit(preset.address).netloc == address.host
            if own and (key := os.environ.get(preset.key)):
                return key
    return os.environ.get(OWN_KEY) or None


def key_names(address: Address) -> str:
    """Name the variables in which a key for this server is looked for."""
    own = [p.key for p in PRESETS.values() if p.key and urlsplit(p.address).netloc == address.host]
    return " or ".join([*own, OWN_KEY])


def check_key(address: Address) -> None:
    """Refuse a company's server for which no key is there, before anything is sent to it."""
    hosts = {urlsplit(preset.address).netloc for preset in PRESETS.values() if preset.key}
    if address.host in hosts and not key_of(address):
        raise BackendUnavailable(f"{address.name} needs a key", f"put it into {key_names(address)}")
