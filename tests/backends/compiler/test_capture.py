"""What cannot be captured is refused with its code, the reason and the user's line."""

from __future__ import annotations

import pytest
import torch

from backends import NothingToConvert
from backends.compiler.capture import as_call, as_init_call
from tests.backends.compiler.written import source, triton


def refusal(text: str) -> NothingToConvert:
    with pytest.raises(NothingToConvert) as raised:
        triton(text)
    return raised.value


def line_of(text: str, part: str) -> int:
    return next(number for number, row in enumerate(text.splitlines(), start=1) if part in row)


def test_a_module_that_raises_is_a_reference_error_at_its_line() -> None:
    """The user's own mistake is theirs, with the line it happened at."""
    text = source("return x0 @ x1", (4, 8), (4, 8))
    fault = refusal(text)
    assert (fault.code, fault.line) == ("reference_error", line_of(text, "return x0 @ x1"))
    assert "RuntimeError" in fault.message


def test_a_name_that_is_not_defined_is_named() -> None:
    """A NameError in forward says which name."""
    fault = refusal(source("return undefined_name(x0)", (4, 8)))
    assert fault.code == "reference_error" and "undefined_name" in fault.message


def test_a_constructor_that_raises_is_a_reference_error() -> None:
    """Construction is part of the module."""
    text = source("return x0", (4,), init="raise ValueError('too wide')")
    fault = refusal(text)
    assert fault.code == "reference_error" and "too wide" in fault.message and fault.line == line_of(text, "too wide")


def test_a_branch_on_a_value_is_not_convertible() -> None:
    """Which operations run must not depend on the numbers."""
    fault = refusal(source("if x0.sum() > 0:\n    return x0\nreturn -x0", (4, 8)))
    assert fault.code == "not_convertible" and "depends on the values" in fault.message


def test_a_size_that_depends_on_values_is_not_convertible() -> None:
    """How large a result is must not depend on the numbers either."""
    assert refusal(source("return x0[x0 > 0]", (4, 8))).code == "not_convertible"


def test_nothing_to_do_is_said() -> None:
    """A module without work gets no empty file."""
    fault = refusal(source("return x0.transpose(0, 1)", (4, 8)))
    assert fault.code == "not_convertible" and "no work" in fault.message


def test_what_would_all_stay_in_pytorch_is_named() -> None:
    """An operator that no rule knows is named in the refusal."""
    assert "cumsum" in refusal(source("return torch.cumsum(x0, dim=1)", (4, 8))).message


def test_capture_allocates_nothing() -> None:
    """A problem of 4 TB is captured in no memory: every tensor is a shape."""
    assert "In Triton:  relu" in triton(source("return torch.relu(x0)", (1 << 20, 1 << 20)))


@pytest.mark.parametrize("conversion", ["half()", "to(torch.float64)", "to('cpu')", "float().double()"])
def test_a_constructor_may_convert_its_layers(conversion: str) -> None:
    """`.half()`, `.to()` and the like swap parameters, which torch refuses for tensors it keeps references to."""
    init = f"self.norm = nn.GroupNorm(3, 6).{conversion}\nself.fc = nn.Linear(5, 7).{conversion}"
    forward = "return torch.relu(self.fc(self.norm(x0.to(self.fc.weight.dtype))))"
    text = source(forward, (4, 6, 5), init=init)
    assert "relu" in triton(text)


@pytest.mark.parametrize(
    ("given", "call"),
    [
        ([1, 2], ([1, 2], {})),
        ({"a": 1}, ([], {"a": 1})),
        ([[1], {"a": 2}], ([1], {"a": 2})),
        ([], ([], {})),
    ],
)
def test_init_inputs_are_read_in_both_forms(given: object, call: object) -> None:
    """A plain list, a dictionary, and positional and keyword arguments side by side."""
    assert as_init_call(given) == call


def test_one_tensor_alone_is_one_argument() -> None:
    """get_inputs may return a tensor instead of a list of one."""
    x = torch.rand(3)
    assert as_call(x)[0][0] is x
