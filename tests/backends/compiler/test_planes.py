"""Products from float16 planes: which ones, what the file says, that it is right, and that it fits an H200."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from backends import Request
from backends.compiler.backend import Builtin
from backends.compiler.convert import convert
from backends.compiler.schedule import FAST, WITHOUT_PLANES, offered
from tests.backends.compiler.written import source
from tests.benchmarks.product_variants import variants

GOLDEN = Path(__file__).parent / "golden" / "linear_gelu_planes.py.txt"
LINEAR = source("return F.gelu(self.fc(x0))", (4096, 2048), init="self.fc = nn.Linear(2048, 4096)")
SHARED_LIMIT = 232448


def written(text: str, candidate: int = 0, precision: str = "exact") -> str:
    """Write the candidate of this number."""
    with tempfile.TemporaryDirectory() as folder:
        return "".join(convert(text, "Model", Path(folder), candidate, offered(precision)))


def run(*command: str, seconds: float) -> str:
    """Run a module in a process of its own, without the interpreter unless it asks for it; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, timeout=seconds, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_text_is_the_one_agreed_on() -> None:
    """A change of it is meant: run `python -m tests.backends.compiler.test_planes` and read the difference."""
    assert written(LINEAR) == GOLDEN.read_text(encoding="utf-8")


def test_another_candidate_does_without() -> None:
    """It says so in its header, and has no planes anywhere else."""
    other = written(LINEAR, 1)
    assert WITHOUT_PLANES.name in other.replace("\n            ", " ")
    assert "planes_of" not in other and 'input_precision="tf32x3"' in other


def test_the_ways_to_write_it_that_are_measured_are_ways_to_write_it() -> None:
    """The benchmark's variants replace parts of the text, which must be there."""
    assert len(variants(written(LINEAR))) > 10


def test_less_exact_is_only_what_was_asked_for_and_comes_first() -> None:
    """`--precision fast` puts products of one plane before all others, and the file says what they cost."""
    requests = [Request(LINEAR, "Model", precision=precision) for precision in ("fast", "exact")]
    fast, exact = ("".join(chunk.text for chunk in Builtin(None).write(request)) for request in requests)
    assert "less exact than PyTorch" in fast.replace("\n            ", " ") and "_low" not in fast
    assert exact == written(LINEAR) == written(LINEAR, 1, "fast")
    assert FAST not in offered("exact")


def test_nothing_is_called_less_exact_that_is_not() -> None:
    """A product that is too small for planes is the usual one, by the usual name."""
    small = source("return x0 @ x1", (512, 512), (512, 512))
    assert written(small, 0, "fast") == written(small)


@pytest.mark.parametrize(
    "text",
    [
        source("return x0 @ x1", (512, 512), (512, 512)),
        source("return x0 @ x1", (64, 65536), (65536, 4096)),
        source("return x0 @ x1", (65536, 16), (16, 65536)),
        source("return x0.half() @ x1.half()", (4096, 4096), (4096, 4096)),
    ],
    ids=["small", "few rows", "short sums", "float16"],
)
def test_where_planes_are_not_worth_it_nothing_changes(text: str) -> None:
    """Such a product is written as usual."""
    assert "planes_of" not in written(text)


def test_right_beside_what_float16_cannot_hold() -> None:
    """Special values, which tiles are computed again, when weights are split again, and one plane."""
    checks = ("special_values", "redone_tiles", "kept_planes", "one_plane")
    printed = run("tests.backends.compiler.planes_values", *checks, seconds=110)
    facts = [json.loads(line) for line in printed.splitlines()]
    assert len(facts) > 30 and [fact for fact in facts if fact["fault"]] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_right_at_any_size_and_for_any_numbers() -> None:
    """Also tails, accuracy against float64, triangles, and what the verifier says of one plane."""
    printed = run("tests.backends.compiler.planes_values", seconds=580)
    facts = [json.loads(line) for line in printed.splitlines()]
    assert len(facts) > 95 and [fact for fact in facts if fact["fault"]] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_register_is_spilled_at_full_size(tmp_path: Path) -> None:
    """Products of a batch with a tail that reads a tensor, and a layer with its activation, each 4096 cubed."""
    problems = {
        "bmm_add": source("return torch.bmm(x0, x1) + x2", *[(4, 4096, 4096)] * 3),
        "linear_gelu": source("return F.gelu(self.fc(x0))", (4096, 4096), init="self.fc = nn.Linear(4096, 4096)"),
    }
    for name, text in problems.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    for schedule, files, wanted in (
        ((), [tmp_path], "6 launches, 5 different"),
        (("--precision", "fast"), [tmp_path / "linear_gelu.py"], "3 launches, 2 different"),
    ):
        printed = run("tests.benchmarks.full_size", "--all", *schedule, *map(str, files), seconds=280)
        for fact in (wanted, "0 not converted, 0 not called", "0 do not compile or do not fit, 0 spill"):
            assert fact in printed, printed


@pytest.mark.timeout(300)
def test_each_blocks_sum_is_added_outside_of_the_tensor_cores() -> None:
    """Triton would fold the addition into the product, which costs digits. 256 threads have 64 numbers each to add."""
    assert int(run("tests.backends.compiler.planes_build", seconds=280)) == 128 * 128 // 256


if __name__ == "__main__":
    GOLDEN.write_text(written(LINEAR), encoding="utf-8")
