"""The events of a server's stream → reasoning, text and why it ended, whatever names the server uses for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from backends import BackendUnavailable
from backends.presets import Address
from backends.transport import reason

_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""DeepSeek, SGLang and llama.cpp use the first, vLLM, Ollama and OpenRouter the second."""

_LIMIT = "it reached its token limit (--max-tokens)"

_CUT = {
    "length": _LIMIT,
    "max_tokens": _LIMIT,
    "content_filter": "the server's content filter ended it",
    "error": "the server ended it with an error",
}


@dataclass(frozen=True)
class Piece:
    """A piece of reasoning or of text, or why the answer is not whole."""

    kind: Literal["reasoning", "text", "cut"]
    text: str


def pieces(events: Iterator[dict[str, Any]], address: Address) -> Iterator[Piece]:
    """Yield the pieces of the first choice; raise BackendUnavailable for an error inside the stream."""
    end = ""
    for event in events:
        end = end or ("stop" if event.get("done") else "")
        if event.get("error"):
            said = reason(json.dumps(event), address)
            raise BackendUnavailable(f"the server stopped: {said}", "see the server's own log, or try again")
        for choice in event.get("choices") or []:
            if choice.get("index"):
                continue  # asked for one; what else a server sends belongs to nobody
            delta = choice.get("delta") or choice.get("message") or {}
            if thought := _thought(delta):
                yield Piece("reasoning", thought)
            if text := _text(delta.get("content")) or _text(choice.get("text")):
                yield Piece("text", text)
            end = choice.get("finish_reason") or end
    cut = _CUT.get(str(end), "" if end else "the connection ended")
    if cut:
        yield Piece("cut", cut)


def _thought(delta: dict[str, Any]) -> str:
    for name in _THOUGHTS:
        if isinstance(delta.get(name), str) and delta[name]:
            return str(delta[name])
    details = delta.get("reasoning_details")
    return _text(details) if isinstance(details, list) else ""


def _text(content: Any) -> str:
    """Return the text of a content, which some servers send as a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return ""
