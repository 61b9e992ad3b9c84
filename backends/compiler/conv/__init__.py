"""Convolutions of one to three dimensions as kernels, each with the elementwise tail on its accumulator."""

from __future__ import annotations

from backends.compiler.conv import depthwise, exact, implicit, shifted, shifted_launch, transposed
from backends.compiler.conv.convolved import convolved
from backends.compiler.conv.worth import is_worth
from backends.compiler.group import Group
from backends.compiler.ir import Convolution
from backends.compiler.kernel import KernelText


def write(group: Group, name: str, planes: int) -> KernelText:
    """Write one convolution with its tail, from so many float16 planes where those are worth it (0: never)."""
    op = group.ops[0]
    assert isinstance(op, Convolution)
    if not is_worth(op.x, op.weight, op.out.shape, op.groups.numbers[0], op.is_transposed):
        planes = 0
    if planes:
        conv = convolved(group, shifted.NAMES)
        kernel = f"{shifted.kernel(conv, name, planes)}\n\n{exact.kernel(convolved(group, shifted.NAMES), name)}"
        launcher = shifted_launch.launcher(conv, name)
    else:
        conv = convolved(group)
        writer = transposed if op.is_transposed else depthwise if depthwise.applies(conv) else implicit
        kernel, launcher = writer.kernel(conv, name), writer.launcher(conv, name)
    return KernelText(kernel, launcher, tuple(conv.signature.operands), tuple(conv.signature.scalars), planes)
