"""Fetching a model: only when asked to, the size and the disk first, and every refusal in one line."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends import BackendUnavailable
from backends.download import Size, fetch, size
from backends.local import Local, is_here

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A hub with one model, tiny/llama, and an empty cache; yields what it was asked."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    header = json.dumps({"w": {"dtype": "F32", "shape": [50_000], "data_offsets": [0, 200_000]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(200_000))
    asked: list[str] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(folder, asked))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    yield asked
    server.shutdown()
    thread.join()
    server.server_close()


def _handler(folder: Path, asked: list[str]) -> type[http.server.BaseHTTPRequestHandler]:
    files = {file.name: file.read_bytes() for file in folder.iterdir()}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            path = self.path.partition("?")[0]
            if path.startswith("/api/models/tiny/llama/tree/"):
                tree = [{"type": "file", "path": name, "size": len(d), "oid": name} for name, d in files.items()]
                self._send(200, json.dumps(tree).encode())
            elif path.startswith("/api/models/tiny/llama"):
                siblings = [{"rfilename": name, "size": len(data)} for name, data in files.items()]
                self._send(200, json.dumps({"id": "tiny/llama", "sha": SHA, "siblings": siblings}).encode())
            elif path.startswith("/api/models/tiny/gated"):
                self._send(403, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted."})
            elif path.startswith(f"/tiny/llama/resolve/{SHA}/"):
                name = path.rpartition("/")[2]
                headers = {"ETag": f'"{name}"', "X-Repo-Commit": SHA}
                self._send(200 if name in files else 404, files.get(name, b""), headers)
            else:
                self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

        def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

    return Handler


def test_a_model_is_fetched_whole(hub: list[str]) -> None:
    """The size and the free disk are told first; afterwards the model is here and nothing is asked again."""
    assert not is_here("tiny/llama")
    told = list(fetch("tiny/llama"))
    assert "GB to fetch" in told[0] and "GB are free" in told[0]
    assert is_here("tiny/llama")
    count = len(hub)
    local = Local("tiny/llama", "cpu", download=True)
    assert next(iter(local.arriving())) == "loading tiny/llama" and len(hub) == count


def test_nothing_is_asked_without_consent(hub: list[str]) -> None:
    """A model that is not here is an error that says how to agree, and no request leaves the machine."""
    from backends.model_files import find

    with pytest.raises(BackendUnavailable, match="not on this machine") as fault:
        find("tiny/llama")
    assert "--download" in fault.value.hint and not hub


def test_size_alone_fetches_nothing(hub: list[str], tmp_path: Path) -> None:
    """What a person decides upon: how large it is, what is here, what is free."""
    known = size("tiny/llama")
    assert known.total > 100_000 and known.here == 0 and known.free > 0 and known.place == str(tmp_path / "cache")
    assert not any("resolve" in path for path in hub)


@pytest.mark.parametrize(("name", "said"), [("tiny/nothing", "no model"), ("tiny/gated", "accepted its terms")])
def test_refusals_are_one_line(hub: list[str], name: str, said: str) -> None:
    """A model that does not exist and one that is gated are told as such."""
    with pytest.raises(BackendUnavailable, match=said) as fault:
        list(fetch(name))
    assert "\n" not in fault.value.message and fault.value.hint


def test_a_disk_without_room(hub: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before a byte is fetched, with both numbers."""
    full = {"total": 10**12, "here": 0, "free": 5 * 10**9, "place": "/here"}
    monkeypatch.setattr("backends.download.messages", lambda *_: _told(full))
    with pytest.raises(BackendUnavailable, match=r"1000\.00 GB to fetch, 5 GB are free in /here"):
        list(fetch("tiny/llama"))


def _told(message: dict[str, object]) -> Iterator[dict[str, object]]:
    yield message


def test_no_network_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A hub that cannot be reached."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(BackendUnavailable, match="cannot be fetched"):
        size("tiny/llama")


def test_what_is_left() -> None:
    """A download that was stopped goes on from what is here."""
    assert str(Size(10**9, 4 * 10**8, 10**10, "x")) == "0.60 GB to fetch, 10 GB are free in x"
