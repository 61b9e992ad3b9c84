"""What cannot be captured is refused with its code, the reason and the user's line."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch

from backends import NothingToConvert
from backends.compiler.capture import Symbols, as_call, as_init_call, capture
from tests.backends.compiler.written import source, triton, unbroken


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
    assert "bessel" in refusal(source("return torch.special.bessel_j0(x0)", (4, 8))).message


def test_a_copy_for_pytorch_is_no_kernel() -> None:
    """A file whose kernels only copy, while PyTorch does the work, would convert nothing."""
    fault = refusal(source("y = x0.clone()\nreturn torch.special.bessel_j0(y)", (4, 8)))
    assert fault.code == "not_convertible" and "bessel_j0 would all stay" in fault.message


def test_a_module_that_stays_is_named_by_its_work() -> None:
    """A layer's first operator may only ask for sizes."""
    text = source("return self.bag(x0.abs().long())", (4, 8), init="self.bag = nn.EmbeddingBag(9, 5)")
    assert "In PyTorch: embedding_bag" in triton(text)


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


def test_a_constructor_that_reads_numbers_is_run_for_real() -> None:
    """A schedule over the layers, as torch.linspace(...).item() makes it, needs no data of the module's own."""
    init = "self.rates = [rate.item() for rate in torch.linspace(0, 1, 3)]\nself.fc = nn.Linear(4, 4)"
    assert "self.rates[1]" in triton(source("return torch.relu(self.fc(x0)) * self.rates[1]", (3, 4), init=init))


def test_a_constructor_that_reads_numbers_is_bounded() -> None:
    """A module of many gigabytes is not made to find out a number."""
    init = "self.rate = torch.rand(1).item()\nself.w = [torch.empty(2**29) for _ in range(3)]"
    fault = refusal(source("return x0 * self.rate", (3, 4), init=init))
    assert fault.code == "not_convertible" and "GB" in fault.message


def test_a_tensor_that_forward_keeps_is_said() -> None:
    """Who reads the attribute later would find what was there before."""
    assert "Not kept:   self.last," in triton(source("self.last = torch.relu(x0)\nreturn self.last * 2", (3, 4)))


def test_a_tensor_of_an_earlier_call_is_refused() -> None:
    """Results that depend on the calls before are not those of a kernel file."""
    for rows in (3, 1):
        init = f"self.last = torch.zeros({rows}, 4)"
        fault = refusal(source("self.last = self.last + torch.relu(x0)\nreturn self.last * 2", (rows, 4), init=init))
        assert fault.code == "not_convertible" and "self.last" in fault.message


def test_a_weight_that_a_hook_remakes_is_kept_by_nobody() -> None:
    """Spectral norm in its old form sets the layer's weight before every call."""
    init = "self.fc = nn.utils.spectral_norm(nn.Linear(4, 4))"
    assert "Not kept" not in triton(source("return torch.relu(self.fc(x0))", (3, 4), init=init))


def test_where_not_every_size_can_be_told_the_batch_can() -> None:
    """A layer that wants one size of image takes any number of them."""
    problem = source(
        "return torch.relu(self.fc(self.pool(self.conv(x0)).view(x0.size(0), -1)))",
        (3, 2, 30, 30),
        init=("self.conv, self.pool = nn.Conv2d(2, 4, 3, 2, 1), nn.AvgPool2d(7)\nself.fc = nn.Linear(16, 5)"),
    )
    with patch("backends.compiler.convert.capture", side_effect=_only_batches):
        assert "(3, -1)" not in unbroken(triton(problem))


def _only_batches(*given: Any, symbols: Symbols) -> Any:
    if symbols == "all":
        raise NothingToConvert("not_convertible", "an inequality that cannot be solved")
    return capture(*given, symbols=symbols)
