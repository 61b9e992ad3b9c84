"""einsum of two operands, where it is a matrix product after all: the letters only say which dimensions meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backends.compiler.build import Builder
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.matmul import multiply


@rule("einsum.default")
def einsum(builder: Builder, equation: str, tensors: list[Value], path: Any = None) -> Value:
    left, right, result = _letters(equation, tensors)
    a, b = tensors
    batch = [c for c in left if c in right and c in result]
    summed = [c for c in left if c in right and c not in result]
    rows, columns = [c for c in left if c not in right], [c for c in right if c not in left]
    plain = len(summed) == 1 and len(columns) == 1 and len(rows) >= 1 and (len(rows) == 1 or not batch)
    if not plain or set(result) != {*batch, *rows, *columns}:
        raise Declined("an einsum that is no matrix product")
    a = _arrange(builder, a, left, [*batch, *rows, *summed])
    b = _arrange(builder, b, right, [*batch, *summed, *columns])
    return _arrange(builder, multiply(builder, a, b), [*batch, *rows, *columns], list(result))


def _letters(equation: str, tensors: list[Value]) -> tuple[str, str, str]:
    text = equation.replace(" ", "")
    inputs, arrow, result = text.partition("->")
    parts = inputs.split(",")
    if len(parts) != 2 or len(tensors) != 2 or not arrow or "." in text:
        raise Declined("an einsum of other than two named operands")
    if any(len(set(part)) != len(part) for part in (*parts, result)):
        raise Declined("an einsum along a diagonal")
    sizes: dict[str, int] = {}
    for part, tensor in zip(parts, tensors, strict=True):
        for letter, size in zip(part, tensor.hints, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise Declined("an einsum that broadcasts")
    return parts[0], parts[1], result


def _arrange(builder: Builder, x: Value, letters: Sequence[str], wanted: Sequence[str]) -> Value:
    """Permute on the host: a matrix product reads its operands by their strides."""
    order = [list(letters).index(letter) for letter in wanted]
    if order == sorted(order):
        return x
    shape = tuple(x.shape[place] for place in order)
    return builder.view(x, shape, f"{{0}}.permute({', '.join(map(str, order))})", label="permute", dense=False)
