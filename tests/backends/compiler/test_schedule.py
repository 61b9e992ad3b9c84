"""Candidates: one module written in several ways, each another file, each right."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest

from backends import NothingToConvert, Request
from backends.compiler.convert import convert
from tests.backends.compiler.written import source
from verifier import open_verifier
from verifier.problem import Problem
from verifier.verdict import Verdict

LINEAR = source(
    "return torch.softmax(F.gelu(self.linear(x0)) * x0, dim=-1)", (40, 96), init="self.linear = nn.Linear(96, 96)"
)
BATCH = source("return torch.bmm(x0, x1)", (3, 40, 24), (3, 24, 50))
SOFTMAX = source("return torch.softmax(x0, dim=-1)", (16, 3000))
ADD = source("return x0 + 1", (5, 7))


@cache
def candidate(text: str, number: int) -> str:
    """Write a module's candidate."""
    with tempfile.TemporaryDirectory() as folder:
        return "".join(convert(text, "Model", Path(folder), number))


def test_every_candidate_is_another_file_and_says_how() -> None:
    """The usual one says nothing of schedules; the others say in the header what is different."""
    texts = [candidate(LINEAR, number) for number in range(4)]
    assert len(set(texts)) == 4
    said = [line for text in texts for line in text.splitlines() if line.startswith("Schedule:")]
    assert said == [
        "Schedule:   matrix products and convolutions by the library",
        "Schedule:   more work a program",
        "Schedule:   less work a program",
    ]


def test_the_library_keeps_its_products_and_the_rest_is_still_fused() -> None:
    """The linear layer stays a call of PyTorch's, named with its reason, and what follows is one kernel."""
    text = candidate(LINEAR, 1)
    assert "In PyTorch: linear: left to the library in this candidate" in text
    assert "self.linear(x0)" in text and text.count("_kernel[") == 1


def test_a_copy_before_a_product_can_be_left_out() -> None:
    """Only the factor that lies as [k, n] is ever copied as a rule: a layer's weight gives no further candidate."""
    usual, further = candidate(BATCH, 0), candidate(BATCH, 1)
    assert "along_k(left), along_k(right.mT).mT" in usual and "left = along_k(left)\n" in further
    assert "read where they" in further and not any("read where they" in candidate(LINEAR, n) for n in range(4))


def test_a_row_is_given_to_more_and_to_fewer_warps() -> None:
    """A row stays one program's; what changes is how many threads share it."""
    warps = [next(word for word in candidate(SOFTMAX, n).split("num_warps=")[1:]) for n in range(3)]
    assert [text.partition("\n")[0].rstrip(",)") + ")" for text in warps] == [
        "min(max(block // 512, 4), 16)",
        "min(max(block // 256, 8), 32)",
        "min(max(block // 1024, 2), 8)",
    ]


def test_when_every_way_is_written_that_is_said() -> None:
    """The library has nothing to keep in an addition: three ways, and no fourth."""
    assert len({candidate(ADD, number) for number in range(3)}) == 3
    with pytest.raises(NothingToConvert) as ended:
        candidate(ADD, 3)
    assert ended.value.code == "no_more_candidates" and "3 ways" in ended.value.message


CONV = source("return F.relu(self.conv(x0)) * 2", (2, 4, 9, 11), init="self.conv = nn.Conv2d(4, 8, 3)")
ONLY_CONV = source("return self.conv(x0)", (2, 4, 9, 11), init="self.conv = nn.Conv2d(4, 8, 3)")
DEPTHWISE = source("return self.conv(x0)", (2, 4, 9, 11), init="self.conv = nn.Conv2d(4, 4, 3, groups=4)")
VOLUME = source("return self.conv(x0)", (1, 4, 3, 3, 5), init="self.conv = nn.ConvTranspose3d(4, 4, 3)")


def test_what_the_library_does_faster_is_left_to_it_and_said() -> None:
    """The usual candidate calls cuDNN and writes what stands behind; the next one writes all of it."""
    usual, everything = candidate(CONV, 0), candidate(CONV, 1)
    assert "In PyTorch: conv2d: the library's convolution is faster" in usual and "self.conv(x0)" in usual
    assert "In PyTorch: nothing" in everything
    assert "Schedule:   all that can be in Triton, also what the library does faster" in everything


def test_a_module_of_nothing_else_is_written_all_the_same() -> None:
    """Whoever asks for a kernel gets one, and the table will say how fast it is."""
    text = candidate(ONLY_CONV, 0)
    assert "In PyTorch: nothing" in text and "also what the library does faster" in text


@pytest.mark.parametrize("text", [DEPTHWISE, VOLUME])
def test_what_triton_does_faster_is_written_at_once(text: str) -> None:
    """Depthwise convolutions, and transposed ones in three dimensions."""
    assert "Schedule:" not in candidate(text, 0) and "In PyTorch: nothing" in candidate(text, 0)


def test_a_candidate_is_the_same_every_time() -> None:
    """Same module, same number, same text."""
    assert candidate(LINEAR, 2) == candidate.__wrapped__(LINEAR, 2)


def test_every_candidate_is_verified() -> None:
    """A schedule changes where work runs, never what comes out."""
    from backends.compiler.backend import Builtin

    problem = Problem.parse(LINEAR)
    verifier = open_verifier(device="cpu")
    try:
        for number in range(4):
            request = Request(problem.source, problem.entry, candidate=number)
            kernel = "".join(chunk.text for chunk in Builtin(verifier.spawn).write(request))
            *_, verdict = verifier.verify(problem, kernel)
            assert isinstance(verdict, Verdict) and verdict.outcome == "pass", (number, verdict.message)
    finally:
        verifier.close()
