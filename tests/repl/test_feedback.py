"""What the verifier found, in the words that a model is told."""

from __future__ import annotations

from repl.feedback import REMEMBERED, TRACE_LIMIT, feedback_of
from repl.turn import Candidate
from verifier.verdict import Check, Timing, Verdict

KERNEL = "import torch\n\n\n@triton.jit\ndef kernel(x_ptr):\n    y = tl.nonsense(x_ptr)\n    tl.store(x_ptr, y)\n"


def candidate(verdict: Verdict, number: int = 1, kernel: str = KERNEL) -> Candidate:
    """A candidate of a model."""
    return Candidate("m", f"candidate {number}", kernel, verdict, number)


def timed(milliseconds: float, compiled: float | None = None, roofline: float | None = None) -> Verdict:
    """A verified kernel with its time."""
    return Verdict("pass", timing=Timing(milliseconds, 1.0, compiled, 1 / milliseconds, (0.9, 1.1), roofline))


def test_a_failure_is_told_with_its_line_and_the_file() -> None:
    """The code, the message, what passed before, the kernel's line with three around it, the end of the trace."""
    verdict = Verdict(
        "fail", "compile_error", "line 6: no attribute 'nonsense'", trace="x" * 5000 + "the cause",
        checks=(Check("parses", "pass"), Check("compiles", "fail", "at kernel")),
    )  # fmt: skip
    (told,) = feedback_of([candidate(verdict)])
    assert "compile_error: line 6: no attribute 'nonsense'" in told and "- compiles: at kernel" in told
    assert "passed before that: parses" in told and "the cause" in told and len(told) < TRACE_LIMIT + 1000
    assert ">    6     y = tl.nonsense(x_ptr)" in told and "     3 " in told and "     8 " not in told
    assert told.rstrip().endswith("```") and KERNEL.strip() in told


def test_a_line_that_is_not_in_the_kernel_is_not_quoted() -> None:
    """A message may name a line of another file."""
    (told,) = feedback_of([candidate(Verdict("fail", "runtime_error", "line 600: no"))])
    assert "Around line" not in told


def test_earlier_attempts_are_one_line_each_and_the_best_is_whole() -> None:
    """Of earlier files only the best correct one and the one in question are sent."""
    wrong = Verdict("fail", "value_mismatch", "rows beyond 1024 are wrong")
    many = [candidate(wrong, n, f"attempt_{n} = 1") for n in range(1, 14)]
    best = candidate(timed(0.2), 14, "best = 1")
    newest = candidate(wrong, 15, "newest = 1")
    told = feedback_of([*many, best, newest])
    assert len(told) == REMEMBERED + 2 and "best = 1" in told[-2] and "newest = 1" in told[-1]
    assert not any("attempt_" in piece for piece in told)


def test_the_one_in_question_need_not_be_the_newest() -> None:
    """A fix goes on from the candidate it was asked for."""
    first, second = (candidate(Verdict("fail", "crash", f"{n} crashed"), n, f"file_{n} = 1") for n in (1, 2))
    told = feedback_of([first, second], first)
    assert "file_1 = 1" in told[-1] and "2 crashed" in told[0]


def test_a_right_file_is_told_what_makes_it_faster() -> None:
    """How near it is to the limit, and who is ahead."""
    assert "Make it faster" in feedback_of([candidate(Verdict("pass"))])[-1]
    told = feedback_of([candidate(timed(0.5, compiled=0.3, roofline=0.4))])[-1]
    assert "right, 0.5 ms, 2.00 times" in told and "40% of what the device allows" in told
    assert "torch.compile takes 0.3 ms" in told
    assert "close to what the device allows" in feedback_of([candidate(timed(0.5, roofline=0.9))])[-1]
    left = Verdict("pass", in_pytorch=("conv2d",))
    assert "Still left to PyTorch: conv2d" in feedback_of([candidate(left)])[-1]


def test_nothing_was_tried() -> None:
    """The first request has no findings."""
    assert feedback_of([]) == ()
