"""What stands behind an accumulator: an elementwise tail, computed before the result is stored."""

from __future__ import annotations

from collections.abc import Callable

from backends.compiler.body import loaded, stored
from backends.compiler.group import Group
from backends.compiler.ir import Pointwise, Value
from backends.compiler.signature import Signature, wishes
from backends.compiler.text import Writer

Address = tuple[str, str]
"""An offset and the mask that it is inside, as text."""


def tail(
    group: Group,
    signature: Signature,
    acc: str,
    coordinates: dict[int, str],
    place: Callable[[Value], Address],
    result: Address,
) -> list[str]:
    """Load what the tail reads (each from its `place`), compute it on `acc`, store the results at `result`."""
    lines, names = [], {group.ops[0].out: acc}
    writer = Writer(names, signature.scalars, coordinates)
    for op in group.ops[1:]:
        assert isinstance(op, Pointwise)
        for value in op.inputs:
            if value not in names:
                names[value] = signature.operands[value]
                lines.append(f"{names[value]} = {loaded(names[value], *place(value), value.dtype)}")
        text = writer.write(op.expr)
        names[op.out] = signature.results.get(op.out) or signature.names.unused(*wishes(op, group))
        lines.append(f"{names[op.out]} = {text}")
    return lines + [stored(signature.results[value], *result, names[value]) for value in group.outputs]
