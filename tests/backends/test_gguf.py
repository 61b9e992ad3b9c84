"""GGUF files: converted once, with a clear word where that cannot be; the conversion itself needs real weights."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from backends import BackendUnavailable, Request, gguf
from backends.local import Local


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that calls itself GGUF."""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + b"\0" * 100)
    return path


@pytest.fixture
def readable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A reader that finds a thousand million numbers in any file."""
    tensors = [SimpleNamespace(n_elements=10**9)]
    monkeypatch.setattr(gguf, "_check_packages", lambda: None)
    monkeypatch.setattr(gguf, "_numbers", lambda _: sum(t.n_elements for t in tensors))
    yield


def test_a_disk_that_is_too_small(file: Path, cache: Path, readable: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before anything is converted, with both sizes, and nothing is left behind."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3 * 10**9))
    with pytest.raises(BackendUnavailable, match=r"takes 4\.0 GB when converted, and 3\.0 GB are free") as fault:
        gguf.converted(file)
    assert "make room" in fault.value.hint and not list(cache.rglob("unfinished*"))


def test_a_disk_that_becomes_full(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The writer of weights says so with an error of its own kind."""

    def full(*_: Path) -> None:
        raise RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(gguf, "_convert", full)
    gguf.main(str(file), str(tmp_path))
    assert "the disk became full while model.gguf was converted" in capsys.readouterr().out


def test_a_cache_that_cannot_be_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the converted model would be kept is named."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with pytest.raises(BackendUnavailable, match="cannot be kept in /proc/nowhere") as fault:
        gguf.convert_elsewhere(file)
    assert "XDG_CACHE_HOME" in fault.value.hint


def test_what_is_no_gguf_file(file: Path, cache: Path) -> None:
    """Told by the process that converts, whatever it dies of; nothing is left behind."""
    has_reader = importlib.util.find_spec("gguf") and importlib.util.find_spec("accelerate")
    said = "no GGUF file, or a part of one" if has_reader else "need the package"
    with pytest.raises(BackendUnavailable, match=said):
        list(Local(str(file), "cpu", spawn=lambda _: None).write(Request("s", "M")))  # type: ignore[arg-type,return-value]
    assert not list(cache.rglob("unfinished*"))


def test_stopped_while_converting_leaves_nothing(file: Path, cache: Path) -> None:
    """Ctrl-C in the middle takes what was written by then with it."""

    def stopped(_: Path, folder: Path) -> None:
        (folder / "half").write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gguf._made(file, gguf._place(file), stopped)
    assert list((cache / "kernelllm/gguf").iterdir()) == []
