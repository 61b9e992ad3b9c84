"""An operator that is answered by the shape of its result refuses what PyTorch refuses, and leaves nothing behind."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from backends import NothingToConvert
from backends.compiler.whole import answered
from tests.backends.compiler.written import source, triton


def test_a_batch_norm_of_other_channels_is_refused() -> None:
    """The module raises in eager mode, and the person is told at which line."""
    with pytest.raises(NothingToConvert, match="8 numbers for 6 channels") as refused:
        triton(source("return self.norm(x0)", (4, 6, 5, 5), init="self.norm = nn.BatchNorm2d(8)"))
    assert refused.value.code == "reference_error" and refused.value.line is not None


REFUSED = {
    "takes 8 features, and is given 6": ("x0", "nn.Linear(8, 3)"),
    "weight of torch.float32, and is given torch.float16": ("x0.half()", "nn.Linear(6, 3)"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_linear_layer_of_other_features_is_refused(message: str) -> None:
    """So is one of another dtype: PyTorch casts neither."""
    given, layer = REFUSED[message]
    with pytest.raises(NothingToConvert, match=message) as refused:
        triton(source(f"return self.fc({given})", (4, 6), init=f"self.fc = {layer}"))
    assert refused.value.code == "reference_error" and refused.value.line is not None


ALLOCATIONS = ("aten::empty", "aten::empty_like", "aten::new_empty", "aten::expand", "aten::add_")
"""What a layer may run: a batch norm counts its batches, a bias has to fit."""


class _Count(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.operators.append(func._schema.name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("layer", [torch.nn.BatchNorm2d(6), torch.nn.Dropout(0.5), torch.nn.Linear(5, 5).half()])
def test_its_parts_are_not_run(layer: torch.nn.Module) -> None:
    """One allocation stands for all of it."""
    with FakeTensorMode(allow_non_fake_inputs=True), answered(), torch.no_grad(), _Count() as count:
        y = layer(torch.empty(4, 6, 5, 5, dtype=torch.float16))
    assert y.shape == (4, 6, 5, 5) and y.dtype == torch.float16
    assert not [name for name in count.operators if name not in ALLOCATIONS]


def test_outside_pytorch_answers_itself() -> None:
    """The kernels that were there are there again."""
    with answered():
        pass
    x = torch.rand(4, 6)
    y = torch.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, False)
    assert torch.allclose(y.mean(0), torch.zeros(6), atol=1e-5)
