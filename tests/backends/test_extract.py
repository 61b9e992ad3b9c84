"""Which file is meant in a whole answer, also when it is badly fenced, cut, or runs on."""

from __future__ import annotations

import pytest

from backends.extract import extract

KERNEL = "import torch\nimport triton\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
JIT = "import triton\n\n\n@triton.jit\ndef add_kernel(x_ptr):\n    pass\n"


@pytest.mark.parametrize(
    ("answer", "kernel"),
    [
        (f"```python\n{KERNEL}```", KERNEL),
        (f"```\n{KERNEL}```", KERNEL),
        (f"first\n```python\nx = 1\n```\nthen\n```python\n{KERNEL}```\n", KERNEL),
        (f"```python\n{KERNEL}```\nUsage:\n```python\nModelNew()\n```\n", KERNEL),
        (f"```python\n{KERNEL}", KERNEL),
        (KERNEL, KERNEL),
        (f"{KERNEL}```\nand some words", KERNEL),
        (f"<think>```python\nclass ModelNew: no\n```</think>\n```python\n{KERNEL}```", KERNEL),
        (f"it was thought\n</think>\n```python\n{KERNEL}```", KERNEL),
        (f"Sure!\n{KERNEL}\nThis file does what you asked, isn't it?", KERNEL.rstrip("\n") + "\n\n"),
        ("I cannot do that.", None),
        ("", None),
    ],
)
def test_the_file_that_is_meant(answer: str, kernel: str | None) -> None:
    """The last complete block with ModelNew wins; without a fence, the longest text that is Python."""
    assert extract(answer) == kernel


def test_kernels_shown_before_the_class_belong_to_it() -> None:
    """A class without kernels is joined with those of the earlier blocks."""
    assert extract(f"```python\n{JIT}```\nand\n```python\n{KERNEL}```\n") == f"{JIT}\n{KERNEL}"


def test_lost_first_line_is_mended() -> None:
    """An answer whose opening fence and first import were lost still means torch."""
    lost = "import torch.nn as nn\n\n\nclass ModelNew(nn.Module):\n    scale = torch.ones(1)\n"
    assert extract(lost + "```\n") == "import torch\n" + lost


def test_broken_code_is_returned_as_it_is() -> None:
    """A block that does not parse is still the kernel: the verifier says what is wrong with it."""
    assert extract("```python\nclass ModelNew(:\n```") == "class ModelNew(:\n"
