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

from verifier import cases
from verifier.shadows import SHADOWS
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
    native_layer_norm native_group_norm native_batch_norm _fused_rms_norm cudnn_batch_norm
    """.split()
)


@dataclass(frozen=True)
class Footprint:
    """Elements held and touched by one forward, and the shapes of its tensor inputs.

    `produced` counts what every operation returns, `rows` the rows of the widest row-wise operation, `products`
    the multiply-adds of matrix products and `convolved` those of convolutions.
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
    shadow: str = "meta"

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
        operands = [a for a in args if isinstance(a, Tensor)]
        self.rows = max(self.rows, _rows(name, args, outputs))
        if outputs and name in ("mm", "addmm", "bmm", "baddbmm", "linear", "mv", "addmv", "dot"):
            self.products += outputs[0].numel() * operands[-2 if len(operands) > 1 else -1].shape[-1]
        elif outputs and "convolution" in name and len(operands) > 1:
            wide = args[0] if args[6] else outputs[0]  # transposed: every input element meets the whole weight
            self.convolved += wide.numel() * math.prod(operands[1].shape[1:])
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
    return outputs[1].numel() if name in _NORMS and len(outputs) > 1 else 0


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
    with cases.no_stdin(), SHADOWS[shadow](), torch.no_grad():
        exec(compile(source, "<pasted>", "exec"), module.__dict__)
        args, kwargs = cases.init_arguments(module)
        model = getattr(module, entry)(*args, **kwargs)
        call_args, call_kwargs = cases.arguments(module.get_inputs(), init=False)
        inputs = flatten((call_args, call_kwargs)).tensors
        if forward:
            with meter:
                model(*call_args, **call_kwargs)
    held = [*inputs, *model.parameters(), *model.buffers()]
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
        shadow=shadow,
    )
