"""HTTP to a server that a model answers behind: one request, its status, its lines; stopped by hanging up."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from backends import BackendUnavailable
from backends.presets import Address, is_local, key_of

CONNECT_SECONDS = 10.0
BODY_LIMIT = 1 << 22

_FIELDS = (b":", b"event:", b"id:", b"retry:")
_FOREIGN = ("the server's answer is not what an OpenAI-compatible one sends", "check the address")


class BrokenOff(Exception):
    """The connection ended while an answer was awaited or streamed."""


class Lines:
    """The open requests of one backend; `hang_up` ends them all from another thread."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._open: set[http.client.HTTPConnection] = set()
        self._lock = threading.Lock()
        self.stopped = threading.Event()

    @contextlib.contextmanager
    def request(
        self, method: str, path: str, body: dict[str, Any] | None, seconds: float, connect: float = CONNECT_SECONDS
    ) -> Iterator[http.client.HTTPResponse]:
        """Ask and yield the response; `seconds` is the longest silence. Raise BackendUnavailable, or BrokenOff."""
        connection, path = _connection(self.address, connect), self.address.path + path
        with self._lock:
            self._open.add(connection)
        try:
            yield self._ask(connection, method, path, body, seconds)
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def hang_up(self) -> None:
        """End every request that is under way."""
        self.stopped.set()
        with self._lock:
            for connection in self._open:
                if connection.sock is not None:
                    with contextlib.suppress(OSError):
                        connection.sock.shutdown(socket.SHUT_RDWR)

    def _ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: dict[str, Any] | None,
        seconds: float,
    ) -> http.client.HTTPResponse:  # fmt: skip
        name = self.address.name
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        if key := key_of(self.address):
            headers["Authorization"] = f"Bearer {key}"
        try:
            connection.connect()
        except (OSError, http.client.HTTPException) as fault:
            raise BackendUnavailable(f"{name} does not answer: {_why(fault)}", "is the server running?") from fault
        try:
            connection.sock.settimeout(max(seconds, 0.01))
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            return connection.getresponse()
        except (OSError, http.client.HTTPException, ValueError) as fault:
            raise BrokenOff(_why(fault)) from fault


def events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a stream: [DONE], told as {"done": true}, or the end of the body ends it.

    A server that ignores `stream` and sends one JSON object instead is taken as a stream of one. Raise BrokenOff, or
    BackendUnavailable for what is no stream of a model.
    """
    foreign = False
    try:
        if "json" in (response.getheader("Content-Type") or "") and "stream" not in response.getheader(
            "Content-Type", ""
        ):
            yield decoded(response.read(BODY_LIMIT))
            return
        for line in response:
            if not line.startswith(b"data:"):
                # Comments keep the connection alive; the names of other fields say nothing here.
                foreign = foreign or (bool(line.strip()) and not line.startswith(_FIELDS))
                continue
            foreign, data = False, line[5:].strip()
            if data == b"[DONE]":
                yield {"done": True}
                return
            if data:
                yield decoded(data)
    except (OSError, http.client.HTTPException, ValueError) as fault:
        raise BrokenOff(_why(fault)) from fault
    if foreign:
        raise BackendUnavailable(*_FOREIGN)


def decoded(data: bytes) -> dict[str, Any]:
    """Read a JSON object; raise BackendUnavailable for anything else."""
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BackendUnavailable(*_FOREIGN)
    return value


def reason(text: str, address: Address) -> str:
    """Take the message out of an error body, as one line, without the key that some servers repeat in it."""
    try:
        found = json.loads(text)
        error = found.get("error", found.get("detail", found.get("message", text)))
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError):
        pass
    if key := key_of(address):
        text = text.replace(key, "…")
    return " ".join(text.split())[:300]


def _connection(address: Address, seconds: float) -> http.client.HTTPConnection:
    """Open nothing yet; a proxy of the environment is used, except for this machine itself."""
    kind = http.client.HTTPSConnection if address.secure else http.client.HTTPConnection
    secure: dict[str, Any] = {"context": ssl.create_default_context()} if address.secure else {}
    try:
        host = urlsplit(f"//{address.host}").hostname or ""
        proxy = urllib.request.getproxies().get("https" if address.secure else "http")
        if proxy and not is_local(address) and not urllib.request.proxy_bypass(host):
            through = kind(urlsplit(proxy).netloc.rpartition("@")[2], timeout=seconds, **secure)
            through.set_tunnel(address.host)
            return through
        return kind(address.host, timeout=seconds, **secure)
    except http.client.InvalidURL as fault:
        raise BackendUnavailable(f"{address.name} is no host: {fault}", "check the address") from fault


def _why(fault: Exception) -> str:
    if isinstance(fault, TimeoutError):
        return "no answer within the time"
    if isinstance(fault, http.client.RemoteDisconnected | ConnectionResetError | http.client.IncompleteRead):
        return "the connection ended"
    return str(getattr(fault, "strerror", None) or fault or type(fault).__name__)
