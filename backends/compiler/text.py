"""Expressions as Triton text, with no more brackets than Python needs."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

import torch

from backends.compiler.expression import Call, Expr, Index, Literal, Ref, Scalar
from backends.compiler.indexed import Measure, Name, Tap
from backends.compiler.ir import Value

TYPES = {
    torch.float64: "tl.float64",
    torch.float32: "tl.float32",
    torch.float16: "tl.float16",
    torch.bfloat16: "tl.bfloat16",
    torch.int64: "tl.int64",
    torch.int32: "tl.int32",
    torch.int16: "tl.int16",
    torch.int8: "tl.int8",
    torch.uint8: "tl.uint8",
    torch.bool: "tl.int1",
}

OPERATORS = {
    "<": 1,
    "<=": 1,
    ">": 1,
    ">=": 1,
    "==": 1,
    "!=": 1,
    "|": 2,
    "^": 3,
    "&": 4,
    "<<": 5,
    ">>": 5,
    "+": 6,
    "-": 6,
    "*": 7,
    "/": 7,
    "int_div": 7,
    "int_mod": 7,
}
SYMBOLS = {"int_div": "//", "int_mod": "%"}
UNARY, ATOM = 8, 9

FUNCTIONS = {
    "exp": "tl.exp",
    "exp2": "tl.exp2",
    "log": "tl.log",
    "log2": "tl.log2",
    "sqrt": "tl.sqrt",
    "sin": "tl.sin",
    "cos": "tl.cos",
    "abs": "tl.abs",
    "floor": "tl.floor",
    "ceil": "tl.ceil",
    "erf": "tl.erf",
    "sigmoid": "tl.sigmoid",
    "where": "tl.where",
    "tanh": "tanh_of",
    "log1p": "log1p_of",
    "expm1": "expm1_of",  # Triton has none: see carried.py
}

LIBDEVICE = {
    **{
        name: name
        for name in """
    acos acosh asin asinh atan atan2 atanh copysign erfc erfcx erfinv fmod hypot lgamma tan
    """.split()
    },
    "i0": "cyl_bessel_i0",
    "i1": "cyl_bessel_i1",
    "ndtri": "normcdfinv",
}
"""Functions of CUDA's own mathematics library, which PyTorch calls too; by PyTorch's names."""

IN_DOUBLE = {"tanh", "log1p", "expm1"}
"""Functions whose form here has float32's digits: for float64 they are the library's."""


def literal(number: float, dtype: torch.dtype) -> str:
    """Write a number so that Triton reads it as the dtype's kind."""
    if dtype == torch.bool:
        return repr(bool(number))
    if not dtype.is_floating_point:
        return repr(int(number))
    value = float(number)
    return repr(value) if math.isfinite(value) else f'float("{value}")'


def _is_float32(number: float) -> bool:
    return not math.isfinite(number) or struct.unpack("f", struct.pack("f", number))[0] == number


class Writer:
    """Writes expressions given the kernel's names for tensors' elements, scalars and coordinates.

    `known` names nodes that the kernel has written already, by identity; `measures` the launcher's numbers.
    """

    def __init__(
        self,
        names: Mapping[Value, str],
        scalars: Mapping[str, str],
        indices: Mapping[int, str],
        known: Mapping[int, str] | None = None,
        measures: Mapping[Any, str] | None = None,
    ) -> None:
        self.names, self.scalars, self.indices = names, scalars, indices
        self.known = known if known is not None else {}  # filled while it is in use
        self.measures = measures or {}

    def write(self, x: Expr, least: int = 0) -> str:
        """Return the text of x, in brackets if it binds less tightly than `least`."""
        text, binding = self._write(x)
        return f"({text})" if binding < least else text

    def _write(self, x: Expr) -> tuple[str, int]:
        if id(x) in self.known:
            return self.known[id(x)], ATOM
        if isinstance(x, Name):
            return x.text, ATOM
        if isinstance(x, Measure):
            return self.measures[x.key], ATOM
        if isinstance(x, Ref):
            return self.names[x.value], ATOM
        if isinstance(x, Literal):
            text = literal(x.number, x.dtype)
            return text, UNARY if text.startswith("-") else ATOM
        if isinstance(x, Scalar):
            return self.scalars[x.host], ATOM
        if isinstance(x, Index):
            return self.indices[x.from_end], ATOM
        assert isinstance(x, Call), type(x)
        return self._call(x)

    def _call(self, x: Call) -> tuple[str, int]:
        name, arguments = x.function, x.arguments
        if name in OPERATORS:
            binding = OPERATORS[name]
            # comparisons do not chain, and the right side of - and / must bind more tightly
            left = self.write(arguments[0], binding + (binding == 1))
            right = self.write(arguments[1], binding if name in ("+", "*", "&", "|", "^") else binding + 1)
            if name in ("+", "*") and OPERATORS.get(getattr(arguments[1], "function", ""), ATOM) == binding:
                right = self.write(arguments[1], binding + 1)  # keep the order of rounding that was asked for
            return f"{left} {SYMBOLS.get(name, name)} {right}", binding
        if name == "neg":
            return f"-{self.write(arguments[0], UNARY)}", UNARY
        if name == "not":
            return f"~{self.write(arguments[0], UNARY)}", UNARY
        if name == "cast":
            return self._cast(arguments[0], x.dtype), ATOM
        if name in ("maximum", "minimum"):
            inner = ", ".join(self._exact(argument) for argument in arguments)
            nan = ", propagate_nan=tl.PropagateNan.ALL" if x.dtype.is_floating_point else ""
            return f"tl.{name}({inner}{nan})", ATOM
        if name in LIBDEVICE or (name in IN_DOUBLE and x.dtype == torch.float64):
            inner = ", ".join(self._of_one_type(argument) for argument in arguments)
            return f"libdevice.{LIBDEVICE.get(name, name)}({inner})", ATOM
        return f"{FUNCTIONS[name]}({', '.join(self._exact(argument) for argument in arguments)})", ATOM

    def _exact(self, x: Expr) -> str:
        """Write a function's argument; as a bare number, one of float64 would be rounded to float32."""
        is_rounded = isinstance(x, Literal) and x.dtype == torch.float64 and not _is_float32(x.number)
        return f"tl.full((), {self.write(x)}, tl.float64)" if is_rounded else self.write(x)

    def _of_one_type(self, x: Expr) -> str:
        """Write an argument of the library's, which converts none: a bare number would be a float32, or an int32."""
        is_bare = isinstance(x, Scalar) or (isinstance(x, Literal) and x.dtype == torch.float64)
        return f"tl.full((), {self.write(x)}, {TYPES[x.dtype]})" if is_bare else self.write(x)

    def _cast(self, x: Expr, dtype: torch.dtype) -> str:
        if dtype == torch.bool:
            return f"({self.write(x, 2)} != 0)"
        if isinstance(x, Scalar):
            return f"({self.write(x)} + tl.zeros((1,), {TYPES[dtype]}))"
        if isinstance(x, Tap):
            return f"tl.cast({self.write(x)}, {TYPES[dtype]})"  # Triton's interpreter has Python's int there
        return f"{self.write(x, ATOM)}.to({TYPES[dtype]})"
