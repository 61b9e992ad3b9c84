"""How answers are drawn, and what a server takes of a request's parameters: learnt from its refusals, once."""

from __future__ import annotations

import json
from typing import Any

from backends import Request

MAX_TOKENS = 32_768
"""What an answer may take, thinking included; a server with less room says so and is asked for less."""

RAW_TOKENS = 4096
"""A model tuned on one raw prompt does not think, and its completions have no end of their own."""

LEAST_TOKENS = 512

_OPTIONAL = ("generation_config", "seed", "top_p", "temperature")
_NO_ROOM = ("context length", "context_length", "context window", "context size")


def heat(request: Request, *, raw: bool) -> tuple[float, float]:
    """Return temperature and top-p: a single answer is drawn carefully, the best of several from a wider choice."""
    more = min(0.15 * request.repeats, 0.6)  # known answers came back: look further afield
    if request.alone:
        return 0.6 + more, 0.95
    # KernelLLM's published best-of-k was drawn at 1.0/0.97. A small chat model loses the thread there.
    return (1.0 + more, 0.97) if raw else (0.8 + more, 0.95)


def speaks_of_context(text: str) -> bool:
    """Tell whether a refusal says that prompt and answer are longer than the model reads."""
    return any(word in text.lower() for word in _NO_ROOM)


def sampled(temperature: float, top_p: float) -> dict[str, Any]:
    """Return the parameters that make a server draw at random.

    `transformers serve` knows the last one alone as a wish to sample: without it most models answer greedily there,
    the same to every seed. Others ignore it, or name it when they refuse.
    """
    way = json.dumps({"do_sample": True, "top_k": 0})
    return {"temperature": temperature, "top_p": top_p, "generation_config": way}


class Parameters:
    """The parameters of one server."""

    def __init__(self) -> None:
        self._refused: set[str] = set()
        self._limit, self._most = "max_tokens", 0

    def fitted(self, body: dict[str, Any]) -> dict[str, Any]:
        """Leave out, rename and lower what this server was found not to take."""
        rest = {name: value for name, value in body.items() if name != "max_tokens"}
        limited = rest | {self._limit: self._most or body["max_tokens"]}
        return {name: value for name, value in limited.items() if name not in self._refused}

    def learn(self, text: str, sent: dict[str, Any]) -> bool:
        """Learn from a refusal of what was sent; return whether there is something new in it."""
        words = text.lower()
        if self._limit == "max_tokens" and "max_completion_tokens" in words:
            self._limit = "max_completion_tokens"
            return True
        room = sent.get(self._limit, 0)
        if (speaks_of_context(text) or self._limit in words) and room > LEAST_TOKENS:
            self._most = room // 2
            return True
        refused = {name for name in (*_OPTIONAL, self._limit) if name in sent and name in words}
        self._refused |= refused
        return bool(refused)
