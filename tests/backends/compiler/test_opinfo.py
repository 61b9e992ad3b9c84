"""PyTorch's own operator samples: a kernel is right or is not written; it is never wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest

SHORT = """add sub mul div clamp_min maximum where masked_fill pow softmax log_softmax logsumexp sum mean var amax
argmax any nn.functional.gelu nn.functional.elu nn.functional.mse_loss nn.functional.kl_div matmul
nn.functional.cosine_similarity nn.functional.conv1d nn.functional.conv2d
nn.functional.conv_transpose2d bmm addmm einsum triu norm nan_to_num cat flip roll gather nn.functional.pad
nn.functional.max_pool2d nn.functional.avg_pool2d remainder scatter_add sort topk
kthvalue median""".split()
WHOLE = ("right", "declined", "skipped")


def sweep(*arguments: str, seconds: int) -> list[dict[str, str]]:
    """Run the samples in a process that has the interpreter."""
    command = [sys.executable, "-m", "tests.backends.compiler.sweep", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_never_wrong(rows: list[dict[str, str]], least_right: float) -> None:
    """No sample is wrong or crashes, and so many of them are converted that this says something."""
    assert [row for row in rows if row["kind"] not in WHOLE] == []
    counts = Counter(row["kind"] for row in rows)
    assert counts["right"] >= least_right * len(rows) > 0, counts


SELECTIONS = [("float32", "2", 0.7), ("bfloat16", "1", 0.7), ("int64", "1", 0.3)]
LAYERS = """nn.BatchNorm2d nn.GroupNorm nn.InstanceNorm1d nn.LayerNorm nn.RMSNorm nn.PReLU nn.Softplus nn.GELU nn.Linear
nn.Conv1d nn.ConvTranspose2d nn.CrossEntropyLoss nn.NLLLoss nn.BCEWithLogitsLoss nn.HuberLoss""".split()


@pytest.mark.parametrize(("dtype", "most", "least_right"), SELECTIONS)
def test_samples_are_right_or_declined(dtype: str, most: str, least_right: float) -> None:
    """A few samples of the commonest operators, in a float, a half and an integer type."""
    assert_never_wrong(sweep("--dtype", dtype, "--most", most, *SHORT, seconds=110), least_right)


def test_functions_of_doubles_have_their_digits() -> None:
    """In float64 the functions that Triton has not are those of CUDA's own library."""
    names = "exp log1p tanh softmax erfinv lgamma atan2 signbit logit nn.functional.softplus nn.functional.gelu"
    assert_never_wrong(sweep("--dtype", "float64", "--most", "1", *names.split(), seconds=110), 1.0)


def test_samples_with_gaps_in_memory_are_right() -> None:
    """Inputs whose memory has gaps and another order than their shape give the same values."""
    assert_never_wrong(sweep("--strided", "--most", "1", *SHORT, seconds=110), 0.7)


def test_layers_are_right_or_declined() -> None:
    """Layers with parameters and buffers, in training and in evaluation mode."""
    assert_never_wrong(sweep("--modules", "--most", "2", *LAYERS, seconds=110), 0.6)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int64", "int32", "uint8", "bool"])
def test_every_sample_of_every_operator(dtype: str) -> None:
    """The whole of OpInfo, also what has no rule: PyTorch may know its parts."""
    assert_never_wrong(sweep("--dtype", dtype, seconds=3600), 0.2)
