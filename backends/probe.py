"""Which servers answer, asked without waiting long; and one token of the chosen one, to see that it really writes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from backends import BackendUnavailable
from backends.presets import PRESETS, Address, key_names, key_of, read
from backends.server_events import pieces
from backends.transport import BrokenOff, Lines, decoded, events, reason

LOOK_SECONDS = 2.0
TOKEN_SECONDS = 60.0


def reachable() -> Iterator[tuple[str, str]]:
    """Yield each well-known server and what it says; one that needs a key is not asked without it."""
    with ThreadPoolExecutor(len(PRESETS)) as pool:
        yield from zip(PRESETS, pool.map(_looked, PRESETS), strict=True)


def checked(text: str | None) -> str:
    """Draw one token from a server and say how that went, in one line."""
    try:
        address = read(text)
        model = address.model or _models(address)[0]
    except BackendUnavailable as fault:
        return f"{fault.message}; {fault.hint}"
    except IndexError:
        return f"{address.name} lists no model; name one: ADDRESS#MODEL"
    began = time.monotonic()
    said = _one_token(address, model)
    return f"{address.name} · {model}: {said or f'one token in {time.monotonic() - began:.1f} s'}"


def _looked(name: str) -> str:
    address = read(name)
    if PRESETS[name].key and not key_of(address):
        return f"needs a key in {key_names(address)}"
    try:
        models = _models(address)
    except BackendUnavailable as fault:
        return fault.message.removeprefix(f"{address.name} ")
    more = f" and {len(models) - 4} more" if len(models) > 4 else ""
    return f"answers: {', '.join(models[:4]) or 'lists no model'}{more}"


def _models(address: Address) -> list[str]:
    try:
        with Lines(address).request("GET", "/models", None, LOOK_SECONDS, LOOK_SECONDS) as response:
            body = response.read(1 << 20)
            if response.status != 200:
                said = reason(body.decode("utf-8", "replace"), address)
                raise BackendUnavailable(f"{address.name} says {response.status}: {said}", f"key: {key_names(address)}")
    except BrokenOff as fault:
        raise BackendUnavailable(f"{address.name} does not answer: {fault}", "is the server running?") from fault
    listed = decoded(body).get("data")
    return [str(entry.get("id")) for entry in listed or [] if isinstance(entry, dict)]


def _one_token(address: Address, model: str) -> str:
    """Return what went wrong, or ""."""
    asked: dict[str, Any] = {"model": model, "stream": True, "max_tokens": 1}
    asked |= {"prompt": "1"} if address.raw else {"messages": [{"role": "user", "content": "1"}]}
    path = "/completions" if address.raw else "/chat/completions"
    try:
        for _ in range(2):
            with Lines(address).request("POST", path, asked, TOKEN_SECONDS) as response:
                if response.status == 200:
                    next(iter(pieces(events(response), address)), None)
                    return ""
                text = response.read(4000).decode("utf-8", "replace")
            if "max_completion_tokens" not in text or "max_tokens" not in asked:
                break
            asked["max_completion_tokens"] = asked.pop("max_tokens")
        return f"answers {response.status}: {reason(text, address)}"
    except (BackendUnavailable, BrokenOff) as fault:
        return str(fault)
