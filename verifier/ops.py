"""Which operations PyTorch itself computes during a call: the reference's, or what a candidate left to PyTorch.

Views, allocation, copies and metadata are not work and are not listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

HEAVY = frozenset(
    """
    linear matmul bilinear einsum conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    scaled_dot_product_attention multi_head_attention_forward lstm gru rnn_tanh rnn_relu embedding_bag cdist
    """.split()
)
"""Operations whose arithmetic dominates whatever stands beside them."""

_NOT_WORK = frozenset(
    """
    alias detach clone copy copy_ _to_copy to view _unsafe_view reshape _reshape_alias permute transpose t expand
    squeeze unsqueeze slice select split split_with_sizes chunk unbind narrow as_strided diagonal unfold movedim
    empty empty_like empty_strided new_empty new_empty_strided empty_permuted resize_ set_ zeros zeros_like new_zeros
    ones ones_like new_ones full full_like new_full fill fill_ zero zero_ scalar_tensor lift_fresh lift_fresh_copy
    arange item _local_scalar_dense is_pinned _pin_memory record_stream is_same_size contiguous unsafe_split
    unsafe_chunk view_as_real view_as_complex real imag numel size stride sym_size lift equal is_nonzero pin_memory
    slice_scatter select_scatter expand_as view_as _assert_async rand randn randint rand_like randn_like randperm
    normal_ uniform_ random_ bernoulli_ native_dropout_seed eye linspace
    """.split()
)

_BUILT_IN = frozenset({"aten", "prims", "prim", "profiler", "quantized", "torchvision", "_c10d_functional"})
_HOST = frozenset({"numpy", "tolist", "__array__"})
"""Ways out of torch: what is computed behind them is not Triton's work either."""

_NAMES = {
    "addmm": "linear",
    "_addmm_activation": "linear",
    "mm": "matmul",
    "bmm": "matmul",
    "mv": "matmul",
    "dot": "matmul",
    "baddbmm": "matmul",
    "convolution": "conv",
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "native_batch_norm": "batch_norm",
    "_native_batch_norm_legit": "batch_norm",
    "truediv": "div",
    "rsub": "sub",
    "__rsub__": "sub",
    "rtruediv": "div",
    "mean": "mean",
    "multiply": "mul",
    "subtract": "sub",
    "divide": "div",
    "true_divide": "div",
    "special_erf": "erf",
    "absolute": "abs",
    "negative": "neg",
    "_fused_rms_norm": "rms_norm",
    "native_dropout": "dropout",
    "radd": "add",
    "rmul": "mul",
    "rpow": "pow",
    "rmatmul": "matmul",
    "iadd": "add",
    "isub": "sub",
    "imul": "mul",
    "itruediv": "div",
    "invert": "bitwise_not",
    "getitem": "index",
    "setitem": "index_put",
    "greater": "gt",
    "less": "lt",
}


class Ops(TorchDispatchMode):
    """Records the work done while active, under the names people know: linear, gelu, softmax, add.

    `seen` is called with every operation that reaches the device, its arguments and its result, views included.
    """

    def __init__(self, seen: Callable[[str, Sequence[Any], Any], None] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []
        self._seen = seen
        self._calls = _Calls(self.names)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import torch._dynamo at the first operation: a second, for nothing

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        body = None if func.namespace in _BUILT_IN else _python_body(func)
        if body is not None:
            with self:  # somebody's own operator: what it does inside is what counts
                return body(*args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name not in _NOT_WORK and not _is_counter(name, result):
            self._calls.worked(plain_name(name))
        if self._seen is not None:
            self._seen(name, [*args, *(kwargs or {}).values()], result)
        return result

    def __enter__(self) -> Ops:
        super().__enter__()  # type: ignore[no-untyped-call]
        self._calls.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exc: Any) -> None:
        self._calls.__exit__(*exc)  # type: ignore[no-untyped-call]
        super().__exit__(*exc)  # type: ignore[no-untyped-call]


class _Calls(TorchFunctionMode):
    """Knows which public function is being called, so that what it decomposes into is listed once, under its name."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names
        self._outer: str | None = None
        self._listed = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._outer is not None:
            return func(*args, **(kwargs or {}))
        self._outer, self._listed = plain_name(getattr(func, "__name__", "op")), False
        if getattr(func, "__name__", "") in _HOST:
            self.names.append("numpy")
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self._outer = None

    def worked(self, name: str) -> None:
        """Note that something was computed, once for each public call."""
        if self._outer is None:
            self.names.append(name)
        elif not self._listed:
            self._listed = True
            self.names.append(self._outer if self._outer not in _WRAPPERS else name)


def _python_body(func: Any) -> Callable[..., Any] | None:
    """Return the Python function behind an operator made with torch.library.custom_op or triton_op."""
    made = torch._library.custom_ops.OPDEFS.get(func.name().partition(".")[0])
    return None if made is None else made._init_fn


def _is_counter(name: str, result: Any) -> bool:
    """Whether an operation only counted, as batch norm counts its batches."""
    return name == "add_" and result.dim() == 0 and not result.is_floating_point()


_WRAPPERS = frozenset({"apply", "call", "checkpoint", "get", "set", "to", "op", "contiguous", "clone", "backward"})


def plain_name(name: str) -> str:
    """Return the name people use: add for __iadd__ and add_, softmax for _softmax."""
    name = name.partition(".")[0]  # aten's own spelling: index.Tensor
    bare = name.strip("_") if name.startswith("__") else name.removesuffix("_")
    return _NAMES.get(bare, _NAMES.get(name, bare.removeprefix("_")))


def heavy(names: Iterable[str]) -> list[str]:
    """Return those names whose arithmetic dominates."""
    return [name for name in names if name in HEAVY]


def record(function: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Run a function and return its result with the operations it computed."""
    with torch.no_grad(), Ops() as ops:
        result = function()
    return result, ops.names
