"""Which operations a forward runs, under the names people know, and which of them are heavy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

HEAVY = (
    "mm", "matmul", "linear", "conv", "attention", "norm", "softmax", "logsumexp", "einsum", "lstm", "gru", "rnn",
    "pool", "loss", "entropy", "sum", "mean", "var", "std", "prod", "max", "min", "amax", "amin", "argmax", "argmin",
    "cumsum", "cumprod", "cummax", "cummin", "sort", "topk", "scatter", "index_add", "embedding", "interpolate",
    "bilinear", "cdist", "similarity", "dot", "outer", "mv", "baddbmm", "addbmm", "fft", "median", "kron", "det",
)  # fmt: skip
# These end in a heavy word and are not.
LIGHT = frozenset({"clamp_max", "clamp_min", "maximum", "minimum", "cumulative", "index_fill", "normal", "normal_"})

IDLE = frozenset(
    """view reshape _unsafe_view _reshape_alias expand permute transpose t squeeze unsqueeze select slice as_strided
    detach alias split split_with_sizes chunk unbind unfold diagonal view_as_real view_as_complex movedim swapaxes
    unflatten flatten narrow expand_as view_as empty empty_like empty_strided new_empty new_empty_strided size stride
    numel dim is_contiguous sym_size is_same_size set_ resize_ lift_fresh lift_fresh_copy contiguous to _to_copy clone
    zeros zeros_like ones ones_like full full_like new_zeros new_ones new_full arange scalar_tensor fill_ zero_ T mT H
    __get__ __len__ shape device dtype type_as is_floating_point is_complex requires_grad _local_scalar_dense item
    tolist element_size data_ptr storage_offset get_device __index__ __bool__ __int__ __float__ float double half
    bfloat16 int long bool cpu cuda data is_cuda ndim nelement untyped_storage ndimension result_type
    _assert_async _assert_tensor_metadata copy_ copy""".split()
)
"""Views, allocation, copies and metadata: no work that a kernel could take over."""


@dataclass(frozen=True)
class Op:
    """One operation of a forward: its name, whether it is heavy, and the ATen operations it consists of."""

    name: str
    heavy: bool
    aten: tuple[str, ...] = ()


def is_heavy(name: str) -> bool:
    """Tell whether an operation does more than one step per element."""
    if name in LIGHT:
        return False
    words = name.strip("_").split("_")
    return any(word in HEAVY or any(word.endswith(end) and len(end) > 3 for end in HEAVY) for word in words) or any(
        part in name for part in ("conv", "attention", "pool", "softmax", "matmul", "norm", "linear")
    )


def record(call: Callable[[], Any]) -> tuple[Any, tuple[Op, ...]]:
    """Run `call` and list its operations in order, without views and allocation."""
    recorder = _Recorder()
    with recorder.functions, recorder.aten:
        result = call()
    return result, tuple(recorder.ops())


@dataclass
class _Group:
    name: str
    aten: list[str] = field(default_factory=list)


class _Recorder:
    """Pairs the public function people wrote with the ATen operations that ran inside it."""

    def __init__(self) -> None:
        self.groups: list[_Group] = []
        self.current: _Group | None = None
        self.functions, self.aten = _Functions(self), _Aten(self)

    def ops(self) -> Iterator[Op]:
        for group in self.groups:
            work = [name for name in group.aten if name not in IDLE]
            if work and group.name not in IDLE:
                yield Op(group.name, is_heavy(group.name) or any(map(is_heavy, work)), tuple(dict.fromkeys(work)))

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        outer = self.current
        if outer is None:
            self.current = _Group(name)
            self.groups.append(self.current)
        try:
            yield
        finally:
            self.current = outer


class _Functions(TorchFunctionMode):
    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with self.recorder.within(plain_name(getattr(func, "__name__", str(func)))):
            return func(*args, **(kwargs or {}))


class _Aten(TorchDispatchMode):
    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.rpartition("::")[2]
        with self.recorder.within(plain_name(name)):
            assert self.recorder.current is not None
            self.recorder.current.aten.append(name)
            return func(*args, **(kwargs or {}))


_OPERATORS = {"matmul": "matmul", "rmatmul": "matmul", "truediv": "div", "rtruediv": "div", "rsub": "sub", "radd": "add",
              "rmul": "mul", "rpow": "pow", "iadd": "add", "imul": "mul", "isub": "sub", "itruediv": "div",
              "multiply": "mul", "subtract": "sub", "divide": "div", "rfloordiv": "floor_divide",
              "floordiv": "floor_divide", "mod": "remainder", "true_divide": "div"}  # fmt: skip


def plain_name(name: str) -> str:
    """Return the name people know: __rsub__ is sub, relu_ is relu, _softmax is softmax."""
    bare = name.strip("_")
    return _OPERATORS.get(bare, bare) or name
