"""NVIDIA's libdevice functions for the interpreter, computed by torch in float64 and rounded.

What has no stand-in raises NotInterpretable: then the kernel cannot be judged here, which is not the kernel's fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes


class NotInterpretable(Exception):
    """The kernel uses something that only a GPU can run."""


def _of(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def compute(*arrays: Any) -> Any:
        return function(*(torch.from_numpy(np.ascontiguousarray(array, dtype=np.float64)) for array in arrays)).numpy()

    return compute


_IN_TORCH = {
    name: _of(getattr(torch, name))
    for name in """
    abs acos acosh asin asinh atan atan2 atanh ceil cos cosh exp exp2 expm1 floor log log10 log1p log2 rsqrt sin sinh
    sqrt tan tanh trunc erf erfc lgamma pow copysign hypot isnan isinf signbit ldexp
    """.split()
}
_STAND_INS: dict[str, Callable[..., Any]] = {
    **_IN_TORCH,
    "fabs": np.abs,
    "erfinv": _of(torch.special.erfinv),
    "fmod": np.fmod,
    "fmin": np.fmin,
    "fmax": np.fmax,
    "min": np.minimum,
    "max": np.maximum,
    "rint": np.rint,
    "nearbyint": np.rint,
    "cbrt": np.cbrt,
    "exp10": lambda x: np.power(10.0, x),
    "round": lambda x: np.where(np.abs(x) < 2.0**52, np.trunc(x + np.copysign(0.5, x)), x),
    "fma": lambda x, y, z: x * y + z,
    "isnand": np.isnan,
    "isinfd": np.isinf,
    "finite": np.isfinite,
    "isfinited": np.isfinite,
    "fdim": lambda x, y: np.maximum(x - y, 0.0),
    "fast_exp": np.exp,
    "fast_log": np.log,
    "fast_log2": np.log2,
    "fast_sin": np.sin,
    "fast_cos": np.cos,
    "fast_tan": np.tan,
    "fast_pow": np.power,
    "fast_fdivide": np.divide,
    "fast_exp10": lambda x: np.power(10.0, x),
    "fast_log10": np.log10,
    "frcp_rn": lambda x: 1.0 / x,
    "fsqrt_rn": np.sqrt,
    "frsqrt_rn": lambda x: 1.0 / np.sqrt(x),
    "sinpi": lambda x: np.sin(np.pi * x),
    "cospi": lambda x: np.cos(np.pi * x),
    "saturate": lambda x: np.clip(x, 0.0, 1.0),
    "tgamma": _of(lambda x: torch.lgamma(x).exp()),
    "normcdf": _of(torch.special.ndtr),
    "normcdfinv": _of(torch.special.ndtri),
    "j0": _of(torch.special.bessel_j0),
    "j1": _of(torch.special.bessel_j1),
    "y0": _of(torch.special.bessel_y0),
    "y1": _of(torch.special.bessel_y1),
    "cyl_bessel_i0": _of(torch.special.i0),
    "cyl_bessel_i1": _of(torch.special.i1),
    "erfcx": _of(torch.special.erfcx),
    "erfcinv": _of(lambda x: torch.special.erfinv(1.0 - x)),
    "nan": lambda x: np.full_like(x, np.nan),
}


def stand_in(symbol: str) -> Callable[..., Any]:
    """Return the function that computes a libdevice symbol such as __nv_tanhf."""
    name = re.sub(r"^__nv_", "", symbol)
    for candidate in (name, name.removesuffix("f"), name.removesuffix("d"), name.removesuffix("_rn")):
        if candidate in _STAND_INS:
            return _STAND_INS[candidate]
    raise NotInterpretable(f"libdevice's {name} cannot be run without a GPU")


def repair() -> None:
    """Let libdevice calls reach the stand-ins, and name what has none."""
    from triton.language import core
    from triton.language.extra import libdevice
    from triton.runtime import interpreter as it

    def create_extern_elementwise(
        b: Any, lib: str, path: str, symbol: str, args: list[Any], ret: Any, pure: bool
    ) -> Any:
        function = stand_in(symbol)
        unseen = _disable_current_modes(), torch._C.DisableTorchFunction()  # not an operation of the candidate's
        with np.errstate(all="ignore"), unseen[0], unseen[1]:
            values = function(*(np.asarray(arg.data, dtype=np.float64) for arg in args))
        return it.TensorHandle(np.asarray(values).astype(it._get_np_dtype(ret)), ret.scalar)

    def create_inline_asm(b: Any, *args: Any) -> Any:
        raise NotInterpretable("inline assembly cannot be run without a GPU")

    it.InterpreterBuilder.create_extern_elementwise = create_extern_elementwise
    it.InterpreterBuilder.create_inline_asm = create_inline_asm
    try:
        from triton.language.extra.cuda import libdevice as cuda
    except ImportError:
        return
    semantic = it.TritonSemantic(it.interpreter_builder)
    for name, member in vars(cuda).items():
        if core.is_builtin(member):
            called = _bound(member, semantic)
            setattr(cuda, name, called)
            setattr(libdevice, name, called)  # the portable names are empty shells that only the compiler fills


def _bound(member: Callable[..., Any], semantic: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return member(*args, **{**kwargs, "_semantic": semantic})

    call.__name__ = getattr(member, "__name__", "libdevice")
    return call
