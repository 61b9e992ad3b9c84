"""One problem through the compiler and Triton's interpreter, compared with PyTorch itself.

Needs TRITON_INTERPRET=1 before triton is first imported, so it runs in processes of its own.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from backends import NothingToConvert
from backends.compiler.capture import load
from backends.compiler.convert import convert
from backends.compiler.schedule import EVERYTHING, Schedule
from verifier import ties

RELATIVE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 2e-5, torch.float64: 1e-12}
"""Of the value, and a share of it again of the output's mean size: sums cancel."""


@dataclass(frozen=True)
class Outcome:
    """What became of a problem: right, declined (with the reason), wrong, crash, or skipped by PyTorch itself."""

    kind: str
    detail: str = ""


class Stable(TorchDispatchMode):
    """Of equal numbers PyTorch takes any, a kernel the first: so does the reference."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation."""
        is_choosing = func._schema.name.removeprefix("aten::") in ties.CHOOSING
        return ties.stable(func, args, kwargs or {}) if is_choosing else func(*args, **(kwargs or {}))


def judge(text: str, inputs: tuple[Any, ...], *, of_scale: float = 0.5, schedule: Schedule = EVERYTHING) -> Outcome:
    """Convert a problem, run the kernel on the inputs, and compare; `of_scale` weighs the output's mean size."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            reference = _built(load(_written(Path(folder) / "reference.py", text)).Model)
            state = _randomised(reference)
            with Stable():  # type: ignore[no-untyped-call]
                expected = _run(reference, inputs)
            reference.load_state_dict(state)
            exact = _run(reference.double(), pytree.tree_map(_widened, inputs)) if _is_half(expected) else None
        except Exception as fault:
            return Outcome("skipped", f"{type(fault).__name__}: {fault}")
        try:
            kernel = "".join(convert(text, "Model", Path(folder), schedules=[schedule]))
        except NothingToConvert as reason:
            return Outcome("declined", reason.message)
        except Exception as fault:
            return Outcome("crash", _where(fault))
        try:
            candidate = _built(load(_written(Path(folder) / "kernel.py", kernel)).ModelNew)
            candidate.load_state_dict(state)
            found = _run(candidate, inputs)
        except Exception as fault:
            return Outcome("crash", _where(fault))
    return difference(expected, found, exact, of_scale)


def difference(expected: Any, found: Any, exact: Any, of_scale: float) -> Outcome:
    """Compare structure, shapes, dtypes and values; `exact` shows how far off PyTorch itself may be."""
    (known, spec), (got, other) = pytree.tree_flatten(expected), pytree.tree_flatten(found)
    if len(known) != len(got) or spec.num_leaves != other.num_leaves:
        return Outcome("wrong", f"structure {other} for {spec}")
    oracles = pytree.tree_leaves(exact) if exact is not None else [None] * len(known)
    for want, have, oracle in zip(known, got, oracles, strict=True):
        if fault := _leaf(want, have, oracle, of_scale):
            return Outcome("wrong", fault)
    return Outcome("right")


def _leaf(want: Any, have: Any, oracle: Any, of_scale: float) -> str:
    if not isinstance(want, torch.Tensor):
        return "" if want == have else f"{have} for {want}"
    if want.shape != have.shape or want.dtype != have.dtype:
        return f"{tuple(have.shape)} {have.dtype} for {tuple(want.shape)} {want.dtype}"
    if want.is_complex() or not want.numel():
        return "" if torch.equal(want, have) else "complex values"
    if not want.is_floating_point():
        return "" if torch.equal(want, have) else f"{int((want != have).sum())} of {want.numel()} differ"
    own_error = torch.zeros(()) if oracle is None else (want.double() - oracle.double()).abs().nan_to_num(0.0, 0.0, 0.0)
    return _floats(want.double(), have.double(), RELATIVE[want.dtype], own_error, of_scale)


def _floats(want: torch.Tensor, have: torch.Tensor, relative: float, own_error: torch.Tensor, of_scale: float) -> str:
    if not torch.equal(want.isnan(), have.isnan()):
        return f"NaN in {int(have.isnan().sum())} places for {int(want.isnan().sum())}"
    finite = want[want.isfinite()]
    scale = finite.abs().mean() if finite.numel() else torch.zeros(())
    gap = torch.where((want == have) | want.isnan(), 0.0, (want - have).abs())
    bad = (gap > relative * (want.abs() + of_scale * scale) + 2.0 * own_error + 1e-30) | gap.isnan()
    worst = float((gap / (want.abs() + scale + 1e-30)).nan_to_num(posinf=9e9).max())
    return f"{int(bad.sum())} of {bad.numel()} differ, by {worst:.1e}" if bad.any() else ""


def _built(make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    torch.manual_seed(0)
    return make()


def _randomised(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Give the parameters values that hide nothing: zeros and ones would."""
    torch.manual_seed(1)
    known = module.state_dict().items()
    state = {name: torch.rand_like(x) if x.is_floating_point() else x.clone() for name, x in known}
    module.load_state_dict(state)
    return state


def _run(module: torch.nn.Module, inputs: tuple[Any, ...]) -> Any:
    """Return what a call gives, and what it leaves in the module's parameters and buffers."""
    torch.manual_seed(0)
    copies = pytree.tree_map(lambda leaf: _copy(leaf) if isinstance(leaf, torch.Tensor) else leaf, inputs)
    with torch.no_grad():
        result = module(*copies)
    return result, {name: tensor.clone() for name, tensor in module.state_dict().items()}


HALVES = (torch.float16, torch.bfloat16)


def _is_half(tree: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) and leaf.dtype in HALVES for leaf in pytree.tree_leaves(tree))


def _widened(leaf: Any) -> Any:
    return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.dtype in HALVES else leaf


def _copy(x: torch.Tensor) -> torch.Tensor:
    """Copy with the same strides; `clone` would close the gaps."""
    if any(stride == 0 for stride in x.stride()):
        return x.clone()
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x)


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def _where(fault: BaseException) -> str:
    deepest = fault.__cause__ or fault
    frames = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(deepest.__traceback__)]
    text = " ".join(str(deepest).split())[:200]
    return f"{type(deepest).__name__}: {text} at {' < '.join(frames[::-1][:4])}"
