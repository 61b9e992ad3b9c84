"""One convolution with its elementwise tail, and the names in its text."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from backends.compiler.group import Group
from backends.compiler.ir import Convolution, Value
from backends.compiler.signature import Signature, signature

LETTERS = {1: "l", 2: "hw", 3: "dhw"}
"""The spatial dimensions' letters: length, or depth, height and width."""

POINTS = {1: "position", 2: "pixel", 3: "voxel"}

OWN_NAMES = (
    "N",
    "IC",
    "OC",
    "K",
    "ICG",
    "OCG",
    "n",
    "ic",
    "oc",
    "k",
    "a",
    "b",
    "acc",
    "group",
    "corner",
    "place",
    "inside",
    "oc_tiles",
    "lane",
    "n_lanes",
    "row",
    "rows",
    "row_tiles",
    "first_row",
    "phase",
    "n_phases",
    "number",
    "step",
    "most",
    "block_p",
    "block_oc",
    "block_k",
    "block_w",
    "plane",
    "ROWS",
    "exists",
    "offset",
    "start",
    "total",
)
BY_LETTER = (
    "i{}",
    "o{}",
    "k{}",
    "I{}",
    "O{}",
    "K{}",
    "stride_{}",
    "padding_{}",
    "dilation_{}",
    "first_{}",
    "phase_{}",
    "step_{}",
    "taps_{}",
    "tap_{}",
    "d{}",
    "Q{}",
    "G{}",
    "r{}",
)


@dataclass(frozen=True)
class Convolved:
    """One convolution with its tail, and the names in its text."""

    group: Group
    op: Convolution
    signature: Signature

    @property
    def letters(self) -> str:
        """The spatial dimensions' letters, in order."""
        return LETTERS[len(self.op.weight.shape) - 2]

    @property
    def point(self) -> str:
        """What a place of the output is called."""
        return POINTS[len(self.letters)]

    @property
    def is_grouped(self) -> bool:
        """True where an output channel reads a share of the input channels."""
        return self.op.groups.numbers[0] != 1

    @property
    def depth(self) -> str:
        """The number of input channels that an output channel reads."""
        return "ICG" if self.is_grouped else "IC"

    @property
    def width(self) -> str:
        """The number of output channels that read the same input channels."""
        return "OCG" if self.is_grouped else "OC"

    @property
    def group_count(self) -> str:
        """The number of groups in the launcher of a transposed convolution."""
        return self.setting("groups") if self.op.groups.host else str(self.op.groups.numbers[0])

    @property
    def constants(self) -> list[str]:
        """What a kernel is compiled for: the taps, and the layer's settings."""
        forms = ("K{L}", "stride_{l}", "padding_{l}", "dilation_{l}")
        return [name for form in forms for name in self.list(form)]

    @property
    def channel_mask(self) -> str:
        """The condition that an output channel exists, and is of the program's group."""
        return "oc < (group + 1) * OCG" if self.is_grouped else "oc < OC"

    @property
    def is_single(self) -> bool:
        """True for float32, which the tensor cores multiply in three parts."""
        return self.op.x.dtype == torch.float32

    @property
    def x(self) -> str:
        return self.signature.operands[self.op.x]

    @property
    def weight(self) -> str:
        return self.signature.operands[self.op.weight]

    @property
    def bias(self) -> str:
        """The bias's name, "" without one."""
        return self.signature.operands[self.op.bias] if self.op.bias is not None else ""

    @property
    def tail_operands(self) -> dict[Value, str]:
        """What the tail reads."""
        read = {value for op in self.group.ops[1:] for value in op.inputs}
        return {value: name for value, name in self.signature.operands.items() if value in read}

    @property
    def tail_scalars(self) -> list[str]:
        """The numbers that the tail reads."""
        read = {scalar.host for op in self.group.ops[1:] for scalar in op.scalars}
        return [name for host, name in self.signature.scalars.items() if host in read]

    def each(self, form: str, joint: str = ", ") -> str:
        """Write something for every spatial dimension: `{l}` is its letter, `{L}` the capital."""
        return joint.join(form.format(l=letter, L=letter.upper()) for letter in self.letters)

    def list(self, form: str) -> list[str]:
        """Write something for every spatial dimension, as a list."""
        return [form.format(l=letter, L=letter.upper()) for letter in self.letters]

    def setting(self, name: str) -> str:
        """Name one of the layer's settings in the launcher."""
        return self.signature.scalars.get(self.op.settings[name].host, name) if name in self.op.settings else name


def convolved(group: Group, more: tuple[str, ...] = ()) -> Convolved:
    """Name what goes in and out of a convolution's kernel; `more` are names that its text uses besides."""
    op = group.ops[0]
    assert isinstance(op, Convolution)
    letters = LETTERS[len(op.weight.shape) - 2]
    lettered = [form.format(x) for letter in letters for form in BY_LETTER for x in (letter, letter.upper())]
    written_down = [name for name, setting in op.settings.items() if not setting.host]
    point = POINTS[len(letters)]
    return Convolved(group, op, signature(group, (*OWN_NAMES, *more, *lettered, *written_down, point, f"n_{point}s")))
