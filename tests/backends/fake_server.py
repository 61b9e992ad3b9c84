"""A real HTTP server in a thread that behaves, and misbehaves, as OpenAI-compatible servers do."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

KERNEL = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
ANSWER = f"```python\n{KERNEL}```\n"


@dataclass
class Reply:
    """What one request gets: a status with a JSON body, or the lines of a stream.

    `pause` is waited before each line, and `breaks` ends the connection in the middle of the body.
    """

    lines: list[bytes] = field(default_factory=list)
    status: int = 200
    error: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    pause: float = 0.0
    breaks: bool = False


@dataclass
class Fake:
    """A server's behaviour and what it was asked. `replies` are used up in order; the last one stays."""

    address: str = ""
    models: list[str] = field(default_factory=lambda: ["one"])
    replies: list[Reply | Callable[[dict[str, Any]], Reply]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, change: int) -> None:
        """Note that a request has come, or that the whole of its answer is about to be out."""
        with self.lock:
            self.at_once += change
            self.most_at_once = max(self.most_at_once, self.at_once)

    def next_reply(self, body: dict[str, Any]) -> Reply:
        """Note the request and choose its reply."""
        with self.lock:
            self.asked.append(body)
            reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return reply(body) if callable(reply) else reply


def said(*deltas: dict[str, Any], end: str | None = "stop", done: bool = True) -> list[bytes]:
    """Return a server-sent stream with these deltas."""
    choices = [[{"delta": delta, "finish_reason": None}] for delta in deltas]
    if end:
        choices.append([{"delta": {}, "finish_reason": end}])
    lines = [b": keep-alive", b"", *(b"data: " + json.dumps({"choices": choice}).encode() for choice in choices)]
    return lines + ([b"data: [DONE]"] if done else [])


def spoken(text: str, **how: Any) -> list[bytes]:
    """Return a stream of this content, a few characters a piece."""
    return said(*({"content": text[at : at + 7]} for at in range(0, len(text), 7)), **how)


@contextmanager
def serving() -> Iterator[Fake]:
    """Run a server of one test."""
    fake = Fake()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(fake))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    fake.address = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(fake: Fake) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(Reply([json.dumps({"data": [{"id": name} for name in fake.models]}).encode()]))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with ExitStack() as served:
                fake.count(1)
                served.callback(fake.count, -1)
                reply = fake.next_reply({"path": self.path, "key": self.headers.get("Authorization"), **body})
                try:
                    self._send(reply, before_last=served.close)
                except OSError:  # who asked has hung up
                    fake.asked[-1]["hung_up"] = True

        def log_message(self, *_: object) -> None:
            pass

        def _send(self, reply: Reply, before_last: Callable[[], None] = lambda: None) -> None:
            lines = [json.dumps({"error": {"message": reply.error}}).encode()] if reply.error else reply.lines
            length = sum(len(line) + 1 for line in lines) + (1000 if reply.breaks else 0)
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(length), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            for number, line in enumerate(lines, 1):
                time.sleep(reply.pause)
                if number == len(lines):  # who has read it may ask the next thing before this thread runs again
                    before_last()
                self.wfile.write(line + b"\n")
            if reply.breaks:
                self.close_connection = True

    return Handler
