"""What is read off the numbers at hand is what PyTorch says of the tensors themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from backends.compiler.contiguity import read_off

LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "contiguous": lambda: torch.empty(2, 6, 4, 5),
    "channels last": lambda: torch.empty(2, 6, 4, 5).to(memory_format=torch.channels_last),
    "five dimensions, channels last": lambda: torch.empty(2, 6, 4, 5, 3).to(memory_format=torch.channels_last_3d),
    "transposed": lambda: torch.empty(2, 6, 4, 5).transpose(0, 3),
    "with gaps": lambda: torch.empty(2, 6, 4, 5)[:, ::2],
    "expanded": lambda: torch.empty(2, 1, 4, 5).expand(2, 6, 4, 5),
    "one channel": lambda: torch.empty(2, 1, 4, 5),
    "a vector with gaps": lambda: torch.empty(8)[::2],
    "empty": lambda: torch.empty(2, 0, 4, 5),
}


def traced(tensor: torch.Tensor) -> torch.Tensor:
    """Make a tensor of symbols where it is longer than 1."""
    kinds = [DimDynamic.DYNAMIC if size > 1 else DimDynamic.STATIC for size in tensor.shape]
    context = StatelessSymbolicContext(dynamic_sizes=kinds)
    mode = FakeTensorMode(shape_env=ShapeEnv())
    return mode.from_tensor(tensor, source=ConstantSource("x"), symbolic_context=context)


def answers(tensor: torch.Tensor) -> list[bool]:
    owner = torch._prims_common
    formats = (torch.contiguous_format, torch.channels_last, torch.channels_last_3d)
    asked = [owner.is_contiguous_for_memory_format_or_false(tensor, memory_format=format) for format in formats]
    return [*asked, owner.is_non_overlapping_and_dense_or_false(tensor)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_answer_is_pytorch_s(layout: str) -> None:
    """Of symbols it is what is proved for them, and of numbers what it was before."""
    tensor = LAYOUTS[layout]()
    symbols = traced(tensor)
    with read_off():
        found = answers(tensor), answers(symbols)
    assert found == (answers(tensor), answers(traced(tensor)))


def test_nothing_is_asked_of_the_symbols() -> None:
    """The numbers suffice: no relation between sizes is evaluated."""
    x = traced(torch.empty(2, 6, 4, 5))
    halves = x.new_empty([*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2])
    environment = x.fake_mode.shape_env  # type: ignore[attr-defined]
    environment.evaluate_expr = None  # called, this raises
    with read_off():
        assert answers(halves) == [True, False, False, True]


def test_a_length_that_happens_to_be_one_is_a_question_still() -> None:
    """Where a formula is 1 at capture and more for other inputs, PyTorch decides, and remembers that it did."""
    x = traced(torch.empty(4, 3))
    one = x.new_empty_strided((x.shape[0] // 4, x.shape[1]), (1, 1))
    with read_off():
        assert answers(one)[0]
    assert any("4" in str(guard.expr) for guard in x.fake_mode.shape_env.guards)  # type: ignore[attr-defined]


def test_a_length_that_happens_to_be_a_stride_is_a_question_still() -> None:
    """A slice as long as what it is cut from is contiguous for this length alone."""
    x = traced(torch.empty(4, 3))
    width = str(x.shape[1])
    cut = x.new_empty_strided((4, x.shape[1]), (3, 1))
    with read_off():
        assert answers(cut)[0]
    assert [str(guard.expr) for guard in x.fake_mode.shape_env.guards] == [f"Eq({width}, 3)"]  # type: ignore[attr-defined]
