"""The program between capture and kernels: tensors, and the nine kinds of operation the compiler tells apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from backends.compiler.expression import Expr, Ref, Scalar, walk
from backends.compiler.indexed import Map, Measure, Read, reads
from backends.compiler.ranges import Formula


@dataclass(frozen=True)
class Size:
    """A dimension: its value at capture, and its symbol, equal only where the sizes are equal at any input."""

    hint: int
    symbol: Any = None  # a sympy expression, or None for a number fixed by the module

    @property
    def is_number(self) -> bool:
        """True of one that is the same for any input, or that capture held to its value."""
        return self.symbol is None or bool(self.symbol.is_number)

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
    formula: Formula | None = None  # its elements without reading it, as those of arange

    @property
    def hints(self) -> tuple[int, ...]:
        """The shape at capture."""
        return tuple(size.hint for size in self.shape)


@dataclass(frozen=True)
class Origin:
    """Where an operation came from: the user's line, and the path of the submodule it ran in."""

    line: str = ""
    target: str = ""  # the name the user's line assigns to, or, where it returns, the line that called it
    lineno: int = 0
    module: str = ""
    calls: tuple[tuple[str, str], ...] = ()  # the module calls around it, outermost first: path and class
    lines: tuple[int, ...] = ()  # the first rows of the user's statements around it, down to that of the target


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
    def in_place(self) -> list[Value]:
        """Those whose element at the kernel's own place is read."""
        return self.inputs

    @property
    def elsewhere(self) -> list[Value]:
        """Those read at computed places: they must be in memory whole."""
        return []

    @property
    def made(self) -> list[Value]:
        """The tensors written."""
        return [self.out]

    @property
    def scalars(self) -> list[Scalar]:
        """The run-time numbers read."""
        return []

    @property
    def has_effect(self) -> bool:
        """True where something besides `made` changes, so that the operation stays though nobody reads it."""
        return False


@dataclass(eq=False)
class Pointwise(Op):
    """Every element of `out` is `expr` of the operands' elements: at the same place (broadcast), or where it says.

    `extents` give the result's shape where the operands broadcast do not, over the operands' own; `claims` are pairs
    of a dimension of the result (or a length) and another length that must equal it, or places would be read that are
    not there; `coordinates` name the dimensions, counted from the last, as a person would. With `into`, a tensor that
    `expr` reads, the result takes that tensor's place in memory. `absorbed` are producers that `expr` computes itself.
    """

    expr: Expr
    extents: tuple[Expr, ...] | None = None
    coordinates: tuple[tuple[int, str], ...] = ()
    claims: tuple[tuple[int | Expr, Expr], ...] = ()
    into: Value | None = None
    absorbed: tuple[Op, ...] = ()

    @property
    def has_effect(self) -> bool:
        return self.into is not None

    @property
    def inputs(self) -> list[Value]:
        return list(dict.fromkeys(node.value for node in walk(self.expr) if isinstance(node, (Ref, Read))))

    @property
    def in_place(self) -> list[Value]:
        return list(dict.fromkeys(node.value for node in walk(self.expr) if isinstance(node, Ref)))

    @property
    def elsewhere(self) -> list[Value]:
        return list(dict.fromkeys(node.value for node in reads(self.expr)))

    @property
    def scalars(self) -> list[Scalar]:
        claimed = [side for pair in self.claims for side in pair if isinstance(side, Expr)]
        trees = [self.expr, *(self.extents or ()), *claimed]
        inside = [scalar for op in self.absorbed for scalar in op.scalars]
        return [*(node for tree in trees for node in walk(tree) if isinstance(node, Scalar)), *inside]


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
class Scan(Op):
    """Combine `source` along `dim` up to each place: "sum", "prod", "logsumexp", "max", "min", "argmax", "argmin".

    From the last place backwards with `reverse`; with `exclusive` without the place itself, the first being neutral.
    """

    kind: str
    source: Value
    dim: int
    reverse: bool = False
    exclusive: bool = False

    @property
    def inputs(self) -> list[Value]:
        return [self.source]


@dataclass(eq=False)
class Order(Op):
    """The elements of `source` along its last dimension in ascending order, or `is_descending`; or their places.

    Equal ones stay as they lie, and a NaN is the largest number. With `count`, the first so many of them alone.
    """

    source: Value
    is_descending: bool
    is_place: bool
    count: int | None = None

    @property
    def inputs(self) -> list[Value]:
        return [self.source]

    def goes_with(self, other: Order) -> bool:
        """Tell whether one sort gives both."""
        known = self.source, self.is_descending, self.count
        return known == (other.source, other.is_descending, other.count)


@dataclass(eq=False)
class Scatter(Op):
    """`base` with every element of `source` added at the place along `dim` that `index` names, in no fixed order.

    `index` has the source's shape, or one dimension: a place for each along `dim`. With `wraps`, -1 is the last place.
    """

    base: Value
    dim: int
    index: Value
    source: Value
    wraps: bool = False

    @property
    def inputs(self) -> list[Value]:
        return list(dict.fromkeys([self.base, self.index, self.source]))

    @property
    def elsewhere(self) -> list[Value]:
        return self.inputs


@dataclass(eq=False)
class MatMul(Op):
    """out[..., m, n] = sum over k of a[..., m, k] * b, with b given as [..., n, k] when `b_is_nk`."""

    a: Value
    b: Value
    b_is_nk: bool

    @property
    def inputs(self) -> list[Value]:
        return list(dict.fromkeys([self.a, self.b]))


@dataclass(frozen=True)
class PerAxis:
    """A whole number for each spatial dimension, as a stride; `host` names them where the module holds them."""

    numbers: tuple[int, ...]
    host: str = ""


@dataclass(eq=False)
class Convolution(Op):
    """out[n, oc, o] = bias[oc] + sum over (ic, k) of x[n, ic, i] * weight[oc, ic, k]; o, i, k are one to three indices.

    i = o * stride - padding + k * dilation, zero outside of x; where `is_transposed` (weight[ic, oc, k] then)
    o = i * stride - padding + k * dilation. `is_same` asks for the padding that keeps the size.
    """

    x: Value
    weight: Value
    bias: Value | None
    stride: PerAxis
    padding: PerAxis
    dilation: PerAxis
    output_padding: PerAxis
    groups: PerAxis
    is_transposed: bool
    is_same: bool

    @property
    def inputs(self) -> list[Value]:
        return [value for value in dict.fromkeys([self.x, self.weight, self.bias]) if value is not None]

    @property
    def settings(self) -> dict[str, PerAxis]:
        """What the launcher needs beside the tensors, by PyTorch's names and in PyTorch's order."""
        if self.is_same:
            return {"stride": self.stride, "dilation": self.dilation}
        if self.is_transposed:
            own = {"stride": self.stride, "padding": self.padding, "output_padding": self.output_padding}
            return {**own, "groups": self.groups, "dilation": self.dilation}
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}

    @property
    def scalars(self) -> list[Scalar]:
        # a tuple is passed as it is; the number only says that it is whole
        held = [setting for setting in self.settings.values() if setting.host]
        return [Scalar(torch.int64, setting.host, setting.numbers[0]) for setting in held]


@dataclass(eq=False)
class Attention(Op):
    """Weights times v, the weights made of the scores q times k, which are never stored.

    k is given as [..., n, d] when `k_is_nk`, v as [..., n, d]. `steps` lead from `scores` to `argument`: what
    the softmax over the last dimension takes, or the weights themselves. `kind` is "softmax", "safe_softmax"
    where a row of -inf alone gives zeros instead of NaN, or "plain".
    """

    q: Value
    k: Value
    v: Value
    k_is_nk: bool
    scores: Value
    steps: list[Pointwise]
    argument: Value
    kind: str

    @property
    def inputs(self) -> list[Value]:
        return list(dict.fromkeys([self.q, self.k, self.v, *self.beside]))

    @property
    def beside(self) -> list[Value]:
        """What the steps read besides the scores."""
        made = {self.scores, *(step.out for step in self.steps)}
        return list(dict.fromkeys(value for step in self.steps for value in step.inputs if value not in made))

    @property
    def scalars(self) -> list[Scalar]:
        return [scalar for step in self.steps for scalar in step.scalars]


@dataclass(eq=False)
class View(Op):
    """The same numbers at other indices, made on the host: `text` with `{0}` for the source's name.

    `kind` is "unflatten", "flatten", "unsqueeze" or "squeeze" where the compiler can see through the view,
    with `dim` the source's first dimension concerned, and "opaque" otherwise. `map` says where its elements lie.
    Of `pieces` that one call makes, it is one; `apart` is that call.
    """

    source: Value
    text: str
    kind: str = "opaque"
    dim: int = 0
    map: Map | None = None
    pieces: list[Value] = field(default_factory=list)
    apart: str = ""

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
    is_counter: bool = False  # counts in place what nobody here reads

    @property
    def has_effect(self) -> bool:
        return self.is_barrier or self.is_counter

    @property
    def inputs(self) -> list[Value]:
        return list(dict.fromkeys(self.operands))

    @property
    def made(self) -> list[Value]:
        return [self.out, *(result for result in self.results if result is not None)]


@dataclass(frozen=True)
class Pieces:
    """How many tensors forward takes a tensor apart into: `found`, over its lengths, must be what it was at capture.

    Python's own unpacking refuses another number; readings of the pieces would leave out what is beyond them.
    """

    of: Value  # in memory, whatever reads it
    found: Measure
    check: str = "expect_pieces"

    @property
    def wanted(self) -> int:
        """The number at capture."""
        return int(self.found.number)


@dataclass
class Program:
    """Operations in order, the values returned, and how `forward` puts them together again."""

    ops: list[Op]
    inputs: list[Value]
    outputs: list[Any]  # Value or a plain Python constant, one a leaf of the returned structure
    return_text: str  # "{0}" for one tensor, "({0}, {1})", "{{'last': {0}}}", ...
    guards: list[str] = field(default_factory=list)  # statements that refuse what was not captured
    pieces: list[Pieces] = field(default_factory=list)
    lengths: dict[str, int] = field(default_factory=dict)  # how many layers the module's lists hold
    size_text: Callable[[Size], str] = lambda size: str(size.hint)  # writes a size over the inputs' shapes
    unset: tuple[str, ...] = ()  # attributes that only the user's forward sets

    @property
    def kept(self) -> list[Value]:
        """The tensors that must be in memory: those returned, and those whose pieces are counted."""
        return [value for value in self.outputs if isinstance(value, Value)] + [pieces.of for pieces in self.pieces]


def live(ops: list[Op], returned: list[Value]) -> list[Op]:
    """Keep the operations that the returned values need, and those that write to what is visible elsewhere."""
    needed, kept = set(returned), []
    for op in reversed(ops):
        if needed & set(op.made) or op.has_effect:
            kept.append(op)
            needed.update(op.inputs)
    return kept[::-1]


def is_written_back(value: Value) -> bool:
    """Tell whether a value takes the place in memory of a tensor that was there before."""
    return isinstance(value.op, Pointwise) and value.op.into is not None


def root(value: Value) -> Value:
    """Return the tensor a chain of views looks at."""
    while isinstance(value.op, View):
        value = value.op.source
    return value
