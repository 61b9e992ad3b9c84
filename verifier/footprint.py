"""What a problem needs, found without allocating it: sizes, memory and work from a run on tensors without data.

Pasted code is executed here, in a child process.
"""

from __future__ import annotations

import math
import sys
import types
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from verifier import cases, work
from verifier.scaling import SMALLEST
from verifier.shadows import RECURRENT, SHADOWS, bounded
from verifier.tree import flatten

_ALONG = frozenset(
    """
    _softmax _log_softmax cumsum cumprod cummax cummin logcumsumexp sort topk
    """.split()
)
_REDUCE = frozenset(
    """
    sum mean amax amin max min var std var_mean std_mean prod argmax argmin logsumexp linalg_vector_norm norm
    """.split()
)
_NORMS = frozenset(
    """
    native_layer_norm native_group_norm _fused_rms_norm
    """.split()
)


PLENTY = 2**62
TILE = (16, 32, 32)
"""Rows, columns and depth of the smallest product that a kernel takes: fewer rows are as much work."""


@dataclass(frozen=True)
class Footprint:
    """Elements held and touched by one forward, and the shapes of its tensor inputs.

    `produced` counts what every operation returns, `rows` the rows of all row-wise operations, `products` the
    multiply-adds of matrix products in whole tiles and `convolved` those of convolutions. `operations` are all that
    run, and `steps` those of them that a text of the forward would name; `state` holds the names and ranks of what the
    module holds; `averaged` is the least number of elements that a batch norm takes its statistics over, and `counts`
    the lengths of results that are too short to be sizes, with 0 for others.
    """

    shapes: tuple[tuple[int, ...], ...]
    held: int
    held_bytes: int
    largest: int
    largest_bytes: int
    produced: int
    rows: int
    products: int
    convolved: int
    operations: int = 0
    steps: int = 0
    state: tuple[tuple[str, int], ...] = ()
    averaged: int = PLENTY
    counts: tuple[int, ...] = ()
    shadow: str = "meta"

    def is_like(self, other: Footprint) -> bool:
        """Tell whether a text written out for the one module, layer by layer, fits the other."""
        return (self.state, self.steps) == (other.state, other.steps)

    def recounted(self, other: Footprint) -> int:
        """Count the small lengths that are others than there: a text may hold them as the module's own."""
        return sum(before not in (0, now) for now, before in zip(self.counts, other.counts, strict=False))

    @property
    def complete(self) -> bool:
        """False where only inputs and parameters are known: the forward needs real data."""
        return self.shadow != "inputs"

    @property
    def bytes(self) -> int:
        """Memory for one eager forward: what is held, and about three of the largest results at once."""
        return self.held_bytes + 3 * self.largest_bytes


class _Meter(TorchDispatchMode):
    """Counts what the operations of a forward return."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.largest = self.largest_bytes = self.produced = self.rows = self.products = self.convolved = 0
        self.operations = self.steps = 0
        self.averaged = PLENTY
        self.counts: list[int] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import torch._dynamo at the first operation: a second, for nothing

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.rpartition("::")[2]
        outputs = [t for t in (result if isinstance(result, (list, tuple)) else [result]) if isinstance(t, Tensor)]
        for tensor in outputs:
            if not func.is_view:
                self.largest = max(self.largest, tensor.numel())
                self.largest_bytes = max(self.largest_bytes, tensor.numel() * tensor.element_size())
                self.produced += tensor.numel()
        self.operations += 1
        self.steps += name not in RECURRENT
        self.rows += _rows(name, args, outputs)
        self.counts += [length if length < SMALLEST else 0 for tensor in outputs for length in tensor.shape]
        self.averaged = min(self.averaged, _averaged(name, args, outputs))
        self.products += _in_tiles(name, args, outputs)
        self.convolved += work.convolved(name, args, outputs)
        return result


def _rows(name: str, args: Any, outputs: list[Tensor]) -> int:
    """Count the rows that an operation works through one at a time."""
    if not outputs:
        return 0
    if name in _ALONG:
        dim = next((a for a in args[1:] if isinstance(a, int)), -1) if name != "topk" else -1
        return outputs[0].numel() // max(1, outputs[0].shape[dim] if outputs[0].dim() else 1)
    if name in _REDUCE:
        return outputs[0].numel()
    if "batch_norm" in name:  # a plane of an image each
        return outputs[0].shape[0] * outputs[0].shape[1] if outputs[0].dim() > 1 else 1
    return outputs[1].numel() if name in _NORMS and len(outputs) > 1 else 0


def _averaged(name: str, args: Any, outputs: list[Tensor]) -> int:
    """Count the elements behind each statistic of a batch norm in training mode."""
    is_training = "batch_norm" in name and outputs and any(a is True for a in args)
    if not is_training or outputs[0].dim() < 2 or not outputs[0].numel():
        return PLENTY
    return outputs[0].numel() // outputs[0].shape[1]


def _in_tiles(name: str, args: Any, outputs: list[Tensor]) -> int:
    """Count the multiply-adds of a matrix product as a kernel does them."""
    found = work.products(name, args, outputs)
    if not found:
        return 0
    shape = outputs[0].shape
    m, n = (shape[-2], shape[-1]) if outputs[0].dim() > 1 else (shape[-1] if shape else 1, 1)
    k = found // max(outputs[0].numel(), 1)
    whole = [-(-size // tile) * tile for size, tile in zip((m, n, k), TILE, strict=True)]
    return outputs[0].numel() // max(m * n, 1) * math.prod(whole)


def look(source: str, entry: str, shadow: str = "") -> Footprint:
    """Run the module on tensors without data; `complete` is false where it cannot do without.

    `shadow` names the kind of tensors that worked for this module before; without it all kinds are tried.
    Raises whatever the module raises when not even inputs and parameters can be made.
    """
    if shadow:
        return _look(source, entry, shadow)
    first: Exception | None = None
    for kind in SHADOWS:
        try:
            return _look(source, entry, kind)
        except Exception as failure:
            first = first or failure
    assert first is not None
    raise first


def _look(source: str, entry: str, shadow: str) -> Footprint:
    meter, forward = _Meter(), shadow != "inputs"
    module = types.ModuleType("pasted_shadow")
    sys.modules[module.__name__] = module
    made_in = bounded if shadow == "built" else SHADOWS[shadow]
    with cases.no_stdin(), made_in(), torch.no_grad():
        exec(compile(source, "<pasted>", "exec"), module.__dict__)
        args, kwargs = cases.init_arguments(module)
        model = getattr(module, entry)(*args, **kwargs)
    model = model.to("meta") if shadow == "built" else model
    with cases.no_stdin(), SHADOWS[shadow](), torch.no_grad():
        call_args, call_kwargs = cases.arguments(module.get_inputs(), init=False)
        inputs = flatten((call_args, call_kwargs)).tensors
        if forward:
            with meter:
                model(*call_args, **call_kwargs)
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    held = [*inputs, *named.values()]
    return Footprint(
        shapes=tuple(tuple(t.shape) for t in inputs),
        held=sum(t.numel() for t in held),
        held_bytes=sum(t.numel() * t.element_size() for t in held),
        largest=max([meter.largest, *(t.numel() for t in inputs)], default=0),
        largest_bytes=max([meter.largest_bytes, *(t.numel() * t.element_size() for t in inputs)], default=0),
        produced=meter.produced,
        rows=meter.rows,
        products=meter.products,
        convolved=meter.convolved,
        operations=meter.operations,
        steps=meter.steps,
        state=tuple((name, tensor.dim()) for name, tensor in named.items()),
        averaged=meter.averaged,
        counts=tuple(meter.counts),
        shadow=shadow,
    )
