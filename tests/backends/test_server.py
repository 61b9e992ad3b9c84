"""Any OpenAI-compatible server: a real HTTP server in a thread that behaves as such servers do."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

import backends
from backends import BackendUnavailable, Chunk, Request

KERNEL = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
REQUEST = Request("SOURCE", "Model")


class Handler(http.server.BaseHTTPRequestHandler):
    """Plays one scene and remembers what it was asked."""

    scene: ClassVar[dict[str, Any]] = {}
    asked: ClassVar[list[dict[str, Any]]] = []

    def do_GET(self) -> None:
        """List the models."""
        self._reply(200, json.dumps({"data": [{"id": name} for name in self.scene.get("models", ["one"])]}).encode())

    def do_POST(self) -> None:
        """Answer a completion."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append({"path": self.path, "key": self.headers.get("Authorization"), **body})
        refuses = self.scene.get("refuses")
        if refuses in body:
            self._reply(400, json.dumps({"error": {"message": f"unknown parameter: {refuses}"}}).encode())
        elif "status" in self.scene:
            self._reply(self.scene["status"], b'{"error": {"message": "not today"}}')
        else:
            self._reply(200, b"".join(line + b"\n" for line in self.scene["lines"]))

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def address() -> Iterator[str]:
    """A server of this test alone."""
    Handler.scene.clear()
    Handler.asked.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def said(*deltas: dict[str, Any], end: str | None = "stop", done: bool = True) -> list[bytes]:
    """Return a server-sent stream with these deltas."""
    choices = [[{"delta": delta, "finish_reason": None}] for delta in deltas]
    if end:
        choices.append([{"delta": {}, "finish_reason": end}])
    lines = [b": keep-alive", *(b"data: " + json.dumps({"choices": choice}).encode() for choice in choices)]
    return lines + ([b"data: [DONE]"] if done else [])


def asked(address: str, request: Request = REQUEST) -> list[Chunk]:
    """Ask the server once."""
    return list(backends.open("server", model=address).write(request))


@pytest.mark.parametrize("done", [True, False])
def test_a_streamed_answer(address: str, done: bool) -> None:
    """The kernel is what the fence holds, with or without a [DONE] at the end."""
    Handler.scene["lines"] = said(*({"content": char} for char in f"```python\n{KERNEL}```\n"), done=done)
    chunks = asked(address)
    assert "".join(c.text for c in chunks if c.kind == "code") == KERNEL
    assert chunks[-1] == Chunk("final", KERNEL)
    assert Handler.asked[0]["path"] == "/v1/chat/completions" and Handler.asked[0]["model"] == "one"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_no_code(address: str, field: str) -> None:
    """Both names that servers use for the reasoning are read."""
    Handler.scene["lines"] = said({field: "hm"}, {"content": f"```\n{KERNEL}```"})
    chunks = asked(address)
    assert Chunk("reasoning", "hm") in chunks and Chunk("final", KERNEL) in chunks


@pytest.mark.parametrize(("end", "why"), [("length", "token limit"), (None, "connection ended")])
def test_a_cut_answer_is_told(address: str, end: str | None, why: str) -> None:
    """A limit, or a connection that ends in the middle, is said after what arrived."""
    Handler.scene["lines"] = said({"content": "```python\nimport torch\ncl"}, end=end, done=False)
    last = asked(address)[-1]
    assert last.kind == "cut" and why in last.text


def test_a_refused_parameter_is_left_out(address: str) -> None:
    """A server that does not take `seed` is asked again without it, and not told of it a second time."""
    Handler.scene.update(refuses="seed", lines=said({"content": f"```\n{KERNEL}```"}))
    server = backends.open("server", model=address + "#mine")
    for _ in range(2):
        assert Chunk("final", KERNEL) in list(server.write(REQUEST))
    assert ["seed" in request for request in Handler.asked] == [True, False, False]


@pytest.mark.parametrize(("status", "hint"), [(401, "KERNELLLM_API_KEY"), (404, "/v1"), (500, "log")])
def test_errors_carry_the_servers_words(address: str, status: int, hint: str) -> None:
    """An error is one line with the server's own message, and what to do."""
    Handler.scene["status"] = status
    with pytest.raises(BackendUnavailable, match="not today") as fault:
        asked(address)
    assert hint in fault.value.hint


def test_an_error_inside_the_stream(address: str) -> None:
    """Servers report some errors after they said 200."""
    Handler.scene["lines"] = [b'data: {"error": {"message": "out of memory"}}']
    with pytest.raises(BackendUnavailable, match="out of memory"):
        asked(address)


def test_several_models_need_a_name(address: str) -> None:
    """The models are listed, and a name behind # chooses."""
    Handler.scene.update(models=["a", "b"], lines=said({"content": f"```\n{KERNEL}```"}))
    with pytest.raises(BackendUnavailable, match="a, b"):
        asked(address)
    assert Chunk("final", KERNEL) in asked(address + "#b") and Handler.asked[-1]["model"] == "b"


def test_keys_go_only_where_they_belong(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another company's key is not sent to this server; our own variable is."""
    Handler.scene["lines"] = said({"content": f"```\n{KERNEL}```"})
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    monkeypatch.delenv("KERNELLLM_API_KEY", raising=False)
    asked(address)
    monkeypatch.setenv("KERNELLLM_API_KEY", "ours")
    asked(address)
    assert [request["key"] for request in Handler.asked] == [None, "Bearer ours"]


@pytest.mark.parametrize("model", [None, "localhost:8000", "http://127.0.0.1:1/v1#m"])
def test_no_server(model: str | None) -> None:
    """No address, half an address and a refused connection are told in one line."""
    with pytest.raises(BackendUnavailable):
        asked(model or "")
