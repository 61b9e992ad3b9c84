"""Padding: what lies outside is a number, or the same tensor mirrored, stretched or repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from backends.compiler.build import Builder
from backends.compiler.expression import Expr, call, where
from backends.compiler.indexed import Local, every, largest, least, length, measure, named, plus
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.operand import number

Fold = Callable[[Expr, Expr], Expr]


@rule("constant_pad_nd.default")
def constant_pad_nd(builder: Builder, self: Value, pad: list[Any], value: Any) -> Value:
    return _padded(builder, self, [number(builder, size) for size in pad], None, number(builder, value))


@rule("pad.default")
def pad(builder: Builder, self: Value, pad: list[Any], mode: str, value: Any) -> Value:
    sizes = [number(builder, size) for size in pad]
    if mode == "constant":
        return _padded(builder, self, sizes, None, 0 if value is None else number(builder, value))
    if mode not in OUTSIDE or (mode == "circular" and min(sizes) < 0):
        raise Declined(f"pad mode={mode!r}")
    return _padded(builder, self, sizes, OUTSIDE[mode])


def _mirrored(at: Expr, size: Expr) -> Expr:
    """0 1 2 3 | 2 1 ...: the edge itself is not repeated."""
    last = size - 1
    return last - call("abs", last - call("abs", at))


def _stretched(at: Expr, size: Expr) -> Expr:
    return least(largest(at, 0), size - 1)


def _repeated(at: Expr, size: Expr) -> Expr:
    """One turn to either side is all that PyTorch allows."""
    return where(at < 0, at + size, where(at >= size, at - size, at))


OUTSIDE: dict[str, Fold] = {"reflect": _mirrored, "replicate": _stretched, "circular": _repeated}


def _padded(builder: Builder, x: Value, sizes: list[int], outside: Fold | None, fill: float = 0) -> Value:
    rank, widths = len(x.shape), list(zip(sizes[::2], sizes[1::2], strict=True))
    if len(widths) > rank or builder.result is None or 0 in builder.result.hints:
        raise Declined("padding of this shape")
    padded = dict(zip(range(rank - 1, -1, -1), widths, strict=False))
    indices, conditions, extents = [], [], []
    for dim in range(rank):
        before, after = padded.get(dim, (0, 0))
        at = plus(builder.place(dim), -before)
        total, grown = before + after, length(x, dim)
        if (before, after) != (0, 0):
            at = Local(torch.int64, named("from", rank - dim), at)
            size = length(x, dim)
            if outside is not None:
                at = Local(torch.int64, named("inner", rank - dim), outside(at, size))
            else:
                conditions += [at >= 0] if before > 0 else []
                conditions += [at < size] if after > 0 else []
            grown = measure(f"{{0}} {'+' if total >= 0 else '-'} {abs(total)}", x.shape[dim].hint + total, "", (x, dim))
        indices.append(at)
        extents.append(grown)
    outer = float(fill) if x.dtype.is_floating_point else int(fill)
    return builder.mapped("pad", builder.read(x, indices, every(conditions), outer), extents)
