"""The program between capture and kernels: tensors, and the five kinds of operation the compiler tells apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from backends.compiler.expression import Expr, Ref, Scalar, walk


@dataclass(frozen=True)
class Size:
    """A dimension: its value at capture, and its symbol, equal only where the sizes are equal at any input."""

    hint: int
    symbol: Any = None  # a sympy expression, or None for a number fixed by the module

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Size):
            return NotImplemented
        if self.symbol is None or other.symbol is None:
            return self.hint == other.hint
        return bool(self.symbol == other.symbol)

    def __hash__(self) -> int:
        return hash(self.hint)


Shape = tuple[Size, ...]
ONE = Size(1)


@dataclass(eq=False)
class Value:
    """A tensor of the program. `host` is the text that names it in `forward`, once it has one."""

    name: str
    shape: Shape
    dtype: torch.dtype
    op: Op | None = None
    host: str | None = None
    dense: bool = True  # False where the memory may have gaps or another order than the shape's
    aliases: Value | None = None  # shares memory with this one (a view, an in-place result)

    @property
    def hints(self) -> tuple[int, ...]:
        """The shape at capture."""
        return tuple(size.hint for size in self.shape)


@dataclass(frozen=True)
class Origin:
    """Where an operation came from: the user's line, and the path of the submodule it ran in."""

    line: str = ""
    target: str = ""  # the name the user's line assigns to
    lineno: int = 0
    module: str = ""


@dataclass(eq=False)
class Op:
    """One operation; `label` is PyTorch's name for it, or the role of a step inside one ("row_max")."""

    label: str
    out: Value
    origin: Origin

    @property
    def inputs(self) -> list[Value]:
        """The tensors read, each once, in order of first use."""
        return []

    @property
    def made(self) -> list[Value]:
        """The tensors written."""
        return [self.out]

    @property
    def scalars(self) -> list[Scalar]:
        """The run-time numbers read."""
        return []


@dataclass(eq=False)
class Pointwise(Op):
    """Every element of `out` is `expr` of the operands' elements at the same place (broadcast)."""

    expr: Expr

    @property
    def inputs(self) -> list[Value]:
        return list(dict.fromkeys(node.value for node in walk(self.expr) if isinstance(node, Ref)))

    @property
    def scalars(self) -> list[Scalar]:
        return [node for node in walk(self.expr) if isinstance(node, Scalar)]


@dataclass(eq=False)
class Reduce(Op):
    """Combine `source` over `dims`, kept as size 1. For `mean`, divide by the count less `correction`."""

    kind: str
    source: Value
    dims: tuple[int, ...]
    correction: float = 0.0

    @property
    def inputs(self) -> list[Value]:
        return [self.source]


@dataclass(eq=False)
class MatMul(Op):
    """out[..., m, n] = sum over k of a[..., m, k] * b, with b given as [..., n, k] when `b_is_nk`."""

    a: Value
    b: Value
    b_is_nk: bool

    @property
    def inputs(self) -> list[Value]:
        return list(dict.fromkeys([self.a, self.b]))


@dataclass(eq=False)
class View(Op):
    """The same numbers at other indices, made on the host: `text` with `{0}` for the source's name.

    `kind` is "unflatten", "flatten", "unsqueeze" or "squeeze" where the compiler can see through the view,
    with `dim` the source's first dimension concerned, and "opaque" otherwise.
    """

    source: Value
    text: str
    kind: str = "opaque"
    dim: int = 0

    @property
    def inputs(self) -> list[Value]:
        return [self.source]


@dataclass(eq=False)
class Extern(Op):
    """A call that stays in PyTorch: `text` with `{name}` holes for the inputs, and the reason why."""

    text: str
    operands: list[Value]
    reason: str
    results: list[Value | None] = field(default_factory=list)  # where it returns several; None for no tensor
    is_barrier: bool = False  # writes in place to what is visible elsewhere: nothing may move across
    is_work: bool = True  # False for views, allocation and metadata: nothing a kernel would be written for

    @property
    def inputs(self) -> list[Value]:
        return list(dict.fromkeys(self.operands))

    @property
    def made(self) -> list[Value]:
        return [self.out, *(result for result in self.results if result is not None)]


@dataclass
class Program:
    """Operations in order, the values returned, and how `forward` puts them together again."""

    ops: list[Op]
    inputs: list[Value]
    outputs: list[Any]  # Value or a plain Python constant, one a leaf of the returned structure
    return_text: str  # "{0}" for one tensor, "({0}, {1})", "{{'last': {0}}}", ...
    guards: list[str] = field(default_factory=list)  # statements that refuse what was not captured


def live(ops: list[Op], returned: list[Value]) -> list[Op]:
    """Keep the operations that the returned values need, and those that write to what is visible elsewhere."""
    needed, kept = set(returned), []
    for op in reversed(ops):
        if needed & set(op.made) or (isinstance(op, Extern) and op.is_barrier):
            kept.append(op)
            needed.update(op.inputs)
    return kept[::-1]


def root(value: Value) -> Value:
    """Return the tensor a chain of views looks at."""
    while isinstance(value.op, View):
        value = value.op.source
    return value
