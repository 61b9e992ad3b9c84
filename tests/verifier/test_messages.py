"""A wrong kernel's message says what is wrong with it: each pattern is produced by a kernel that has the fault."""

from __future__ import annotations

import pytest

from tests.verifier.conftest import Judge
from tests.verifier.mutants.subjects import written_by_hand

SUBJECTS = {subject.name: subject for subject in written_by_hand()}
GELU, SOFTMAX, PRODUCT = "bias, GELU, skip", "softmax", "product"
DOT = 'tl.dot(a, b, input_precision="ieee")'
ROUNDED = "((X.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)"
TF32 = ROUNDED.replace("X", "a") + ", " + ROUNDED.replace("X", "b")
"""Both operands with the 10 bits of a TF32 mantissa."""

FAULTS = {
    "an unwritten tail": (GELU, "y_ptr + at, y,", "y_ptr + at, tl.where(at < n - 100, y, 0.0),", "only the tail"),
    "beyond a row": (SOFTMAX, "column, e /", "column, (1 + row // 6) * e /", "element 1800 of 2700, from row 6 on"),
    "beyond a column": (
        SOFTMAX, "column, e /", "column, (1 + column // 256) * e /", "only from index 256 on in dimension 1 (size 300)",
    ),
    "every third": (GELU, "at, y,", "at, tl.where(at % 3 == 1, 9.0, y),", "every 3rd element, from element 1 on"),
    "the transpose's layout": (PRODUCT, "y_ptr + m[:, None] * N + n[None, :]", "y_ptr + n[None, :] * M + m[:, None]",
                               "layout of its transpose"),
    "no scale": (PRODUCT, "total * 0.5", "total", "constant factor of 2"),
    "no division": (SOFTMAX, "e / tl.sum(e, axis=0)", "e", "a factor that is the same along dimension 1"),
    "the neighbour's value": (
        SOFTMAX, "+ column, mask=inside, other", "+ (column + 1) % width, mask=inside, other",
        "shifted by one in dimension 1",
    ),
    "one row for all": (SOFTMAX, "x_ptr + row * width", "x_ptr", "every index of dimension 0 has the result of the"),
    "products in half precision": (PRODUCT, DOT, "tl.dot(a.to(tl.float16), b.to(tl.float16))", "fp16 or TF32"),
    "products in TF32": (PRODUCT, DOT, DOT.replace("a, b", TF32), "fp16 or TF32"),
    "products in bfloat16": (PRODUCT, DOT, "tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))", "as bf16"),
    "a sum kept in half precision": (
        PRODUCT, f"total += {DOT}", f"total = (total + {DOT}).to(tl.float16).to(tl.float32)", "fp16 or TF32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_the_message_names_the_fault(judge: Judge, fault: str) -> None:
    """Share, first places with expected and got, and the pattern."""
    name, right, wrong, words = FAULTS[fault]
    subject = SUBJECTS[name]
    assert right in subject.kernel
    verdict = judge(subject.problem, subject.kernel.replace(right, wrong))
    assert verdict.outcome == "fail" and words in verdict.message, verdict.message
    assert " of elements wrong" in verdict.message and " should be " in verdict.message
