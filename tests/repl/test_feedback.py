"""What the verifier found, in the words that a model is told."""

from __future__ import annotations

from dataclasses import replace

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


TRACE = """\
thon3.11/site-packages/torch/nn/modules/module.py", line 1789, in _call_impl
    return forward_call(*args, **kwargs)
  File "/tmp/kernelllm-q/kernel.py", line 10, in kernel
    columns = tl.arange(0, BLOCK)
              ^^^^^^^^^^^^^^^^^^^
  File "/env/site-packages/triton/language/semantic.py", line 623, in arange
    raise ValueError("no power of 2")
ValueError: no power of 2

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/me/verifier/running.py", line 203, in _observed
    returned = quietly(lambda: self._forward(args, kwargs))
  File "/tmp/kernelllm-q/kernel.py", line 27, in forward
    kernel[grid](x, BLOCK=n)
triton.runtime.errors.InterpreterError: ValueError('no power of 2')
"""

TRACED = """\
in kernel, line 10:
    columns = tl.arange(0, BLOCK)
              ^^^^^^^^^^^^^^^^^^^
ValueError: no power of 2
in forward, line 27:
    kernel[grid](x, BLOCK=n)
triton.runtime.errors.InterpreterError: ValueError('no power of 2')
"""


def test_of_a_traceback_the_kernels_own_frames_are_told() -> None:
    """No frame of PyTorch, of Triton or of the verifier, and no path of this machine, goes to a model's server."""
    (told,) = feedback_of([candidate(Verdict("fail", "runtime_error", "no power of 2", trace=TRACE))])
    assert TRACED in told and "site-packages" not in told and "/" not in told.partition("```")[0]


def test_a_compilers_message_is_told_with_the_code_it_quotes() -> None:
    """Its caret stays under what it means."""
    quoted = "CompilationError: at 2:4:\ndef kernel(x_ptr):\n    y = bad(x)\n        ^\nno such function"
    trace = f'Traceback (most recent call last):\n  File "/v/gpu_compile.py", line 1, in compiled\n    f()\n{quoted}'
    (told,) = feedback_of([candidate(Verdict("fail", "compile_error", "no such function", trace=trace))])
    assert quoted in told and "gpu_compile" not in told


def test_what_is_said_twice_is_told_once() -> None:
    """The failing check's words are the message already."""
    verdict = Verdict("fail", "crash", "it crashed at program 3", checks=(Check("runs", "fail", "it crashed"),))
    assert feedback_of([candidate(verdict)])[0].count("it crashed") == 1


def test_the_sizes_of_the_test_are_told() -> None:
    """Wrong in all of 125 columns means something else than in 4000."""
    size = Check("size", "warn", "x 4096x4000 -> 128x125")
    verdict = Verdict("fail", "value_mismatch", "all wrong", checks=(size, Check("values", "fail", "all wrong")))
    assert "- inputs made smaller for the test: x 4096x4000 -> 128x125" in feedback_of([candidate(verdict)])[0]


def test_an_answer_without_code_is_told_what_it_said() -> None:
    """No empty file is shown; the beginning of what was said instead is."""
    verdict = Verdict("fail", "no_code", "the answer was cut off: it reached 300 tokens; it held 200 words and no code")
    (told,) = feedback_of([replace(candidate(verdict, kernel=""), prose="Softmax is\na function. " * 40)])
    assert "reached 300 tokens" in told and "it began: Softmax is a function." in told and "…" in told
    assert "```" not in told and "one code block" in told


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
