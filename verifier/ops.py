"""Which operations PyTorch itself computes during a call: the reference's, or what a candidate left to PyTorch.

Views, allocation, copies and metadata are not work and are not listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from verifier.work import cost

HEAVY = frozenset(
    """
    linear matmul bilinear einsum conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    scaled_dot_product_attention multi_head_attention_forward lstm gru rnn_tanh rnn_relu embedding_bag cdist
    tensordot inner multi_dot chain_matmul sparse_mm int_mm scaled_mm linear_pointwise convolution_pointwise
    """.split()
)
"""Operations whose arithmetic dominates whatever stands beside them."""

UNCOUNTED = frozenset(
    "bilinear embedding_bag sparse_mm int_mm scaled_mm linear_pointwise convolution_pointwise".split()
)
"""Those of them whose multiply-adds `cost` does not count."""

NEARLY = 0.9
"""The share of an operation's cost from which on others have done its work."""

Work = Sequence[tuple[str, int]]
"""Operations by name, with what each did: elements touched, and multiply-adds."""

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
_FOR_ANY_DEVICE = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")
_HOST = frozenset({"numpy", "tolist", "__array__", "__dlpack__"})
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

    `before` is called with every operation that reaches the device and its arguments, `seen` also with its result,
    views included, and returns the result to go on with. `costs` count elements touched, and multiply-adds of
    products and convolutions; `dtypes` are those of the work's results.
    """

    def __init__(
        self,
        seen: Callable[[str, Sequence[Any], Any], Any] | None = None,
        before: Callable[[str, Sequence[Any]], None] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtypes: set[torch.dtype] = set()
        self._before, self._seen = before, seen
        self._calls = _Calls()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import torch._dynamo at the first operation: a second, for nothing

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        body = None if func.namespace in _BUILT_IN else _python_body(func, args)
        if body is not None:
            with self, self._calls.closer():  # somebody's own operator: what it does inside is what counts
                return body(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if self._before is not None:
            self._before(name, [*args, *(kwargs or {}).values()])
        result = func(*args, **(kwargs or {}))
        if name not in _NOT_WORK and not _is_counter(name, result):
            self._calls.worked(plain_name(name), cost(name, args, result))
            self.dtypes |= {value.dtype for value in (result,) if isinstance(value, torch.Tensor)}
        if self._seen is None:
            return result
        return self._seen(name, [*args, *(kwargs or {}).values()], result)

    @property
    def names(self) -> list[str]:
        """Name the operations, in order."""
        return [name for name, _ in self._calls.work]

    @property
    def costs(self) -> list[int]:
        """Count what each of them did."""
        return [cost for _, cost in self._calls.work]

    @property
    def taken_out(self) -> int:
        """Count the real numbers that left torch for Python or numpy."""
        return self._calls.taken_out

    def __enter__(self) -> Ops:
        super().__enter__()  # type: ignore[no-untyped-call]
        self._calls.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exc: Any) -> None:
        self._calls.__exit__(*exc)  # type: ignore[no-untyped-call]
        super().__exit__(*exc)  # type: ignore[no-untyped-call]


class _Calls(TorchFunctionMode):
    """Knows which public function is being called, so that what it decomposes into is listed once, under its name."""

    def __init__(self) -> None:
        super().__init__()
        self.work: list[tuple[str, int]] = []
        self.taken_out = 0  # real numbers that left torch for Python or numpy
        self._outer: str | None = None
        self._listed = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._outer is not None:
            return func(*args, **(kwargs or {}))
        self._outer, self._listed = plain_name(getattr(func, "__name__", "op")), False
        if getattr(func, "__name__", "") in _HOST:
            self.work.append(("numpy", 0))
            self.taken_out += args[0].numel() if args[0].is_floating_point() else 0
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self._outer = None

    @contextmanager
    def closer(self) -> Iterator[None]:
        """Know the functions that are called inside of the one that is being called."""
        outer, self._outer = self._outer, None
        try:
            yield
        finally:
            self._outer = outer

    def worked(self, name: str, cost: int) -> None:
        """Note that something was computed, once for each public call."""
        if self._outer is None:
            self.work.append((name, cost))
        elif not self._listed:
            self._listed = True
            self.work.append((self._outer if self._outer not in _WRAPPERS else name, cost))
        else:
            last, before = self.work[-1]
            self.work[-1] = last, before + cost


def _python_body(func: Any, args: Sequence[Any]) -> Callable[..., Any] | None:
    """Return the Python function behind an operator made with torch.library: custom_op, triton_op, Library.impl."""
    if (made := torch._library.custom_ops.OPDEFS.get(func.name().partition(".")[0])) is not None:
        body: Callable[..., Any] = made._init_fn
        return body
    on_gpu = any(isinstance(arg, torch.Tensor) and arg.device.type == "cuda" for arg in args)
    device = "CUDA" if on_gpu else "CPU"
    name = func.name().replace("::", "/")
    if any(f"{name}/{key}" in torch.library._impls for key in (device, *_FOR_ANY_DEVICE)):
        key = getattr(torch._C.DispatchKey, device)
        return partial(func.redispatch, torch._C.DispatchKeySet(key))  # below this mode, which sees what happens there
    return None


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


def moved(wanted: Work, left: Work) -> list[str]:
    """Name the heavy operations of `wanted` that `left` does all the same, by other operations of as much arithmetic.

    A product is also a convolution, a sum of products, an operation of a library.
    """
    same = Counter(name for name, _ in left) & Counter(name for name, _ in wanted)
    beyond = sum(cost for _, cost in _without(left, same))
    others = sum(name in UNCOUNTED for name, _ in _without(left, same))
    found = []
    for name, done in sorted(_without(wanted, same), key=lambda one: -one[1]):
        if name in HEAVY and (others or beyond >= done * NEARLY):
            found.append(name)
            others, beyond = max(0, others - 1), max(0, beyond - done)
    return found


def _without(work: Work, names: Counter[str]) -> list[tuple[str, int]]:
    left, kept = Counter(names), []
    for name, done in work:
        if left[name]:
            left[name] -= 1
        else:
            kept.append((name, done))
    return kept


def record(function: Callable[[], Any]) -> tuple[Any, Ops]:
    """Run a function and return its result with the record of what it computed."""
    with torch.no_grad(), Ops() as ops:
        result = function()
    return result, ops
