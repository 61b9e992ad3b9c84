"""Bands around tensors: what is written beside them is found, what lies between them stays as it was."""

from __future__ import annotations

import torch

from verifier.guards import BAND, Guards, guard_parameters


def beside(tensor: torch.Tensor, offset: int, value: float) -> None:
    """Write one element outside of a tensor, as a kernel without a mask does."""
    flat = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    flat[tensor.storage_offset() + offset] = value


def test_what_is_written_behind_is_found_once() -> None:
    """The kernel and its argument are named; the bands are whole again for the next launch."""
    guards = Guards()
    y = guards.around(torch.zeros(10))
    assert guards.find("add_kernel", [("y_ptr", y)]) == ""
    beside(y, 10, 1.0)
    assert guards.find("add_kernel", [("y_ptr", y)]) == "add_kernel writes behind the memory of y_ptr (4 bytes or more)"
    assert guards.find("add_kernel", [("y_ptr", y)]) == ""


def test_what_is_written_before_is_found() -> None:
    """A negative offset is as wrong."""
    guards = Guards()
    y = guards.around(torch.zeros(10, dtype=torch.float16))
    beside(y, -1, 1.0)
    assert "before the memory of y_ptr" in guards.find("k", [("y_ptr", y)])


def test_reading_beside_gives_nan() -> None:
    """A result that depends on what lies behind a tensor cannot be right."""
    y = Guards().around(torch.zeros(10))
    flat = torch.empty(0).set_(y.untyped_storage())
    assert flat[y.storage_offset() + 10].isnan() and flat[y.storage_offset() - 1].isnan()
    assert y.data_ptr() % 16 == 0 and BAND % 256 == 0


def test_values_strides_and_shared_memory_stay() -> None:
    """A transposed view and its base are still the same memory, and nothing is copied twice."""
    base = torch.arange(12.0).view(3, 4)
    guards = Guards()
    new, view, other = guards.around([base, base.t()[1:], 3])
    assert torch.equal(new, base) and torch.equal(view, base.t()[1:]) and other == 3
    assert view.stride() == base.t()[1:].stride()
    new[0, 1] = 50
    assert view[0, 0] == 50
    assert guards.around(view) is view


def test_parameters_stay_the_same_objects() -> None:
    """Whoever holds a parameter, an optimiser or a tied layer, still holds it."""
    model = torch.nn.BatchNorm1d(4)
    weight, known = model.weight, {name: value.clone() for name, value in model.state_dict().items()}
    guards = Guards()
    guard_parameters(model, guards)
    assert model.weight is weight
    assert all(torch.equal(value, known[name]) for name, value in model.state_dict().items())
    beside(model.running_mean, 4, 1.0)
    assert "writes behind the memory of mean" in guards.find("k", [("mean", model.running_mean)])
