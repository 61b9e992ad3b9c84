"""How long a verdict takes, warm, beside KernelBench's own evaluation of the same kernels in the same run.

`python -m tests.benchmarks.verification --kernelbench CHECKOUT` needs a GPU and a checkout of KernelBench with what it
imports for it (pydantic). Without the checkout only our own side is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import statistics
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from backends import Request
from backends.compiler.backend import Builtin
from tests.benchmarks.modules import SMALL
from verifier import open_verifier
from verifier.desk import Verifier
from verifier.problem import Problem
from verifier.verdict import Verdict

TURNS = 5
LEVEL2 = "KernelBench/level2/12_Gemm_Multiply_LeakyReLU.py"


def main() -> None:
    """Print both sides' seconds, for a small module and for one of level 2."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernelbench", type=Path, help="a checkout of ScalingIntelligence/KernelBench")
    checkout: Path | None = parser.parse_args().kernelbench
    modules = {**SMALL}
    if checkout:
        modules["level 2, 12"] = (checkout / LEVEL2).read_text(encoding="utf-8")
    theirs = _kernelbench(checkout) if checkout else None
    verifier = open_verifier()
    print("seconds to a verdict   against eager     and torch.compile (KernelBench)   outcome")
    for name, source in modules.items():
        problem = Problem.parse(source)
        kernel = "".join(chunk.text for chunk in Builtin(verifier.spawn).write(Request(problem.source, problem.entry)))
        outcomes: list[str] = []
        columns = [
            _timed(lambda: outcomes.append(_ours(verifier, problem, kernel, "eager"))),  # noqa: B023
            _timed(lambda: outcomes.append(_ours(verifier, problem, kernel, "both"))),  # noqa: B023
        ]
        if theirs:
            columns.append(_timed(lambda: outcomes.append(theirs(problem.source, kernel))))  # noqa: B023
        print(f"{name:22} {'  '.join(columns)}   {', '.join(dict.fromkeys(outcomes))}")
    verifier.close()


def _timed(judge: Callable[[], None]) -> str:
    """Return the median seconds and the range, the first turn (which is cold) left out."""
    judge()
    seconds = []
    for _ in range(TURNS):
        time.sleep(1.0)  # a person reads the table, or a model writes the next kernel
        began = time.monotonic()
        judge()
        seconds.append(time.monotonic() - began)
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f}-{max(seconds):.2f})"


def _ours(verifier: Verifier, problem: Problem, kernel: str, baseline: str) -> str:
    *_, verdict = verifier.verify(problem, kernel, baseline=baseline)
    assert isinstance(verdict, Verdict)
    return f"{verdict.outcome} {verdict.code}".strip()


def _kernelbench(checkout: Path) -> Callable[[str, str], str]:
    """Return KernelBench's evaluation as its own scripts call it: five inputs, a hundred timed calls of each side."""
    sys.path.insert(0, str(checkout / "src"))
    for client in ("dotenv", "openai", "litellm", "requests", "tqdm"):  # of its scripts, not of its evaluation
        if importlib.util.find_spec(client) is None:
            sys.modules[client] = _Unused(client)
    import torch
    from kernelbench.eval import eval_kernel_against_ref  # type: ignore[import-not-found]

    def judged(source: str, kernel: str) -> str:
        with _silent():
            result: Any = eval_kernel_against_ref(
                source, kernel, num_correct_trials=5, num_perf_trials=100, measure_performance=True, backend="triton",
                device=torch.device("cuda:0"),
            )  # fmt: skip
        return f"theirs {'pass' if result is not None and result.correctness else 'fail'}"

    return judged


class _Unused(types.ModuleType):
    """Stands for a package that is imported and never used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


if __name__ == "__main__":
    main()
