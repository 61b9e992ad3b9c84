"""`server`: any OpenAI-compatible endpoint as a backend, one streamed chat completion a candidate.

The address is `http://HOST/v1`, with `#MODEL` behind it where the server holds more than one.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from backends import BackendUnavailable, Chunk, Request
from backends.prompt import messages
from backends.reply import Splitter

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 300.0
"""A model that thinks may say nothing for minutes."""

_OPTIONAL = ("stream_options", "seed", "top_p", "temperature", "max_tokens")
_CUT = {"length": "it reached the server's token limit", "content_filter": "the server's content filter ended it"}


class Server:
    """Draws answers from a server; holds no connection between requests."""

    name = "server"

    def __init__(self, address: str | None) -> None:
        parts = urlsplit(address or "")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BackendUnavailable("no server's address was given", "--model http://HOST:PORT/v1 or .../v1#MODEL")
        self._secure, self._host = parts.scheme == "https", parts.netloc.rpartition("@")[2]
        self._path, self._model = parts.path.rstrip("/"), parts.fragment
        self._refused: set[str] = set()

    def write(self, request: Request) -> Iterator[Chunk]:
        """Stream one answer; raise BackendUnavailable when the server does not give it."""
        body = self._body(request)
        seconds = min(SILENCE_SECONDS, request.seconds) if request.seconds else SILENCE_SECONDS
        with contextlib.closing(self._connect()) as connection:
            response = self._post(connection, body, seconds)
            yield from _chunks(_events(response))

    def close(self) -> None:
        """Nothing is held."""

    def _body(self, request: Request) -> dict[str, Any]:
        first = request.candidate == 0
        body = {
            "model": self._model or self._only_model(),
            "messages": messages(request),
            "stream": True,
            "temperature": 0.6 if first else 1.0,
            "seed": request.seed + request.candidate,
        }
        return {name: value for name, value in body.items() if name not in self._refused}

    def _post(self, connection: http.client.HTTPConnection, body: dict[str, Any], seconds: float) -> Any:
        """Ask, and once more without the parameters that this server says it does not take."""
        for _ in range(2):
            response = self._ask(connection, "POST", "/chat/completions", json.dumps(body), seconds)
            if response.status == 200:
                return response
            text = response.read(4000).decode("utf-8", "replace")
            refused = {name for name in _OPTIONAL if name in body and name in text}
            if response.status not in (400, 422) or not refused:
                break
            self._refused |= refused
            body = {name: value for name, value in body.items() if name not in refused}
        raise BackendUnavailable(f"{self._host} answers {response.status}: {_reason(text)}", _hint(response.status))

    def _only_model(self) -> str:
        with contextlib.closing(self._connect()) as connection:
            response = self._ask(connection, "GET", "/models", None, CONNECT_SECONDS)
            listed = _json(response.read()).get("data") if response.status == 200 else None
        names = [str(entry.get("id")) for entry in listed or [] if isinstance(entry, dict)]
        if len(names) != 1:
            offered = f"it offers {', '.join(names[:8])}" if names else "it does not list its models"
            raise BackendUnavailable(f"which model of {self._host}? {offered}", "name one: --model URL#MODEL")
        return names[0]

    def _connect(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, timeout=CONNECT_SECONDS)

    def _ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: str | None, seconds: float
    ) -> http.client.HTTPResponse:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        if key := self._key():
            headers["Authorization"] = f"Bearer {key}"
        try:
            connection.connect()
            connection.sock.settimeout(seconds)
            connection.request(method, self._path + path, body, headers)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as fault:
            raise BackendUnavailable(f"{self._host} does not answer: {fault}", "is the server running?") from fault

    def _key(self) -> str | None:
        """Each key goes only where it belongs: OpenAI's own to OpenAI alone."""
        own = os.environ.get("KERNELLLM_API_KEY")
        return own or (os.environ.get("OPENAI_API_KEY") if self._host == "api.openai.com" else None)


def _chunks(events: Iterator[dict[str, Any]]) -> Iterator[Chunk]:
    splitter = Splitter()
    end = ""
    for event in events:
        if "error" in event:
            raise BackendUnavailable(f"the server stopped: {_reason(json.dumps(event))}", "try again")
        for choice in event.get("choices") or []:
            delta = choice.get("delta") or {}
            thought = delta.get("reasoning_content") or delta.get("reasoning")
            if isinstance(thought, str):
                yield Chunk("reasoning", thought)
            if delta.get("content"):
                yield from splitter.feed(delta["content"])
            end = choice.get("finish_reason") or end
        if splitter.answered:
            break
    yield from splitter.finish("" if splitter.answered else _CUT.get(end, "" if end else "the connection ended"))


def _events(response: Any) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a server-sent stream; [DONE], a finish reason or the end of the body ends it."""
    try:
        for line in response:
            if not line.startswith(b"data:"):
                continue  # comments keep the connection alive; event names say nothing here
            data = line[5:].strip()
            if data == b"[DONE]":
                return
            yield _json(data)
    except (OSError, http.client.HTTPException) as fault:
        raise BackendUnavailable(f"the stream broke off: {fault or type(fault).__name__}", "try again") from fault


def _json(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BackendUnavailable("the server's answer is not what an OpenAI-compatible one sends", "check the address")
    return value


def _reason(text: str) -> str:
    """Take the message out of an error body."""
    try:
        error = json.loads(text).get("error", text)
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError):
        pass
    return " ".join(text.split())[:300]


def _hint(status: int) -> str:
    if status in (401, 403):
        return "put the key into KERNELLLM_API_KEY"
    return "check the address; it usually ends in /v1" if status == 404 else "see the server's own log"
