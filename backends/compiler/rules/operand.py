"""How rules read an operator's operands: the dtype they meet in, and what a number may decide."""

from __future__ import annotations

from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, Scalar, binary, cast
from backends.compiler.ir import Value
from backends.compiler.rules import Declined


def number(builder: Builder, value: Any) -> Any:
    """Use a run-time number's value to choose a kernel: the file then refuses another value."""
    return builder.pin(value) if isinstance(value, Scalar) else value


def elements(builder: Builder, *operands: Any) -> list[Expr]:
    """Read operands in the dtype of the result."""
    return [builder.element(operand, builder.dtype) for operand in operands]


def common_dtype(*operands: Any) -> torch.dtype:
    """Promote as PyTorch does; 0-d tensors and Python numbers weigh less than tensors with dimensions."""

    def stand_in(operand: Any) -> Any:
        if isinstance(operand, Value):
            return torch.empty([1] * len(operand.shape), dtype=operand.dtype, device="meta")
        return operand.number if isinstance(operand, Scalar) else operand

    left, *rest = (stand_in(operand) for operand in operands)
    dtype = left.dtype if isinstance(left, torch.Tensor) else torch.result_type(rest[0], left)
    for right in rest:
        dtype = torch.result_type(left, right)
    return dtype


def needs_float32(builder: Builder, dtype: torch.dtype | None = None) -> None:
    """Decline float64 where Triton's function, or ours, is only good to float32."""
    if (dtype or builder.dtype) == torch.float64:
        raise Declined("float64: Triton's function is only accurate to float32")


def rounded(builder: Builder, operand: Any, dtype: torch.dtype) -> Expr:
    """Read an operand as PyTorch sees it: half types rounded, since a comparison may hang on the last bit."""
    x = builder.element(operand, dtype)
    computed = isinstance(operand, Value) and operand.op is not None
    return cast(cast(x, dtype), x.dtype) if computed and dtype in (torch.float16, torch.bfloat16) else x


def truth(builder: Builder, operand: Value) -> Expr:
    """Read an operand as a condition: true where it is not 0."""
    x = builder.element(operand, operand.dtype)
    return x if x.dtype == torch.bool else binary("!=", x, 0, torch.bool)
