"""What can be told from a kernel file's text alone."""

from __future__ import annotations

import pytest

from tests.verifier.kernels import RIGHT
from verifier.checks import parses
from verifier.trial import Failed

EXTENSIONS = ["from torch.utils.cpp_extension import load_inline", "import torch.utils.cpp_extension as ext"]


@pytest.mark.parametrize("line", EXTENSIONS)
def test_an_extension_is_no_triton_kernel(line: str) -> None:
    """C++ and CUDA are said to be what they are, before anything is run."""
    with pytest.raises(Failed) as caught:
        parses.check(f"{line}\n{RIGHT}")
    assert caught.value.code == "no_triton_kernel" and "extension" in caught.value.message


def test_names_that_only_look_hidden_are_ones_own() -> None:
    """A variable of the file may be called as something that it must not ask for."""
    assert parses.check(f"f_back = 1\n{RIGHT}").outcome == "pass"
