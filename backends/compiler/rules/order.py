"""Orders of a row: sorting, the largest k, the k-th smallest, and the median. Equal numbers stay as they lie."""

from __future__ import annotations

import math
from typing import Any

import torch

from backends.compiler import viewmaps
from backends.compiler.build import Builder
from backends.compiler.expression import Expr, Ref, as_expr, call, cast, equal, is_nan, where
from backends.compiler.ir import Size, Value
from backends.compiler.ordering import FASTER, FEW, LONGEST, WIDE
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.operand import number, rounded
from backends.compiler.rules.reduction import max_dim, min_dim, read

Pair = tuple[Value, Value]


def _needs_a_row(builder: Builder, x: Value, dim: int, count: int | None = None) -> int:
    """Decline what no program sorts, or PyTorch sorts faster; count the dimension from the first."""
    if not x.shape or 0 in x.hints or x.shape[dim].hint == 1:
        raise Declined("a sort of a single number, or of nothing")
    if x.dtype in WIDE:
        raise Declined("builtin sorts numbers of up to 32 bits: each takes its place along")
    if x.shape[dim].hint > LONGEST:
        raise Declined(f"builtin sorts rows of up to {LONGEST} elements")
    is_whole = count is None or count > FEW
    if is_whole and x.shape[dim].hint > FASTER and not builder.schedule.everything:
        raise Declined(f"PyTorch sorts rows of more than {FASTER} elements faster")
    return dim % len(x.shape)


def _named(label: str) -> tuple[str, str]:
    """Name an operator's values after it, and its indices so that it is not listed twice."""
    return label, f"_{label}_indices"


def _sorted(
    builder: Builder, labels: tuple[str, str], x: Value, dim: int, *, descending: bool, count: int | None = None
) -> Pair:
    """Sort along any dimension: another than the last is read, and given back, as the last."""
    dim = _needs_a_row(builder, x, dim, count)
    row = _laid_last(builder, x, dim)
    values, places = builder.order(labels, row, is_descending=descending, count=count)
    return _moved(builder, values, -1, dim), _moved(builder, places, -1, dim)


def _laid_last(builder: Builder, x: Value, dim: int) -> Value:
    """Look at a tensor with a dimension behind all others; what is computed in a half type, rounded as it is there."""
    if x.op is not None and x.dtype in (torch.float16, torch.bfloat16):
        x = builder.pointwise("_rounded", rounded(builder, x, x.dtype), x.dtype)
    return _moved(builder, x, dim, -1)


def _moved(builder: Builder, x: Value, source: int, target: int) -> Value:
    rank = len(x.shape)
    order = [dim for dim in range(rank) if dim != source % rank]
    order.insert(target % rank, source % rank)
    if order == sorted(order):
        return x
    shape, text = tuple(x.shape[dim] for dim in order), f"{{0}}.movedim({source}, {target})"
    return builder.view(x, shape, text, label="movedim", dense=False, map=viewmaps.permuted(x, order))


@rule("sort.default", "sort.stable")
def sort(builder: Builder, self: Value, dim: int = -1, descending: bool = False, stable: Any = None) -> Pair:
    return _sorted(builder, _named("sort"), self, dim, descending=descending)


@rule("argsort.default", "argsort.stable")
def argsort(builder: Builder, self: Value, dim: int = -1, descending: bool = False, stable: Any = None) -> Value:
    return _sorted(builder, ("_sorted", "argsort"), self, dim, descending=descending)[1]


@rule("msort.default")
def msort(builder: Builder, self: Value) -> Value:
    return _sorted(builder, _named("msort"), self, 0, descending=False)[0]


@rule("topk.default")
def topk(builder: Builder, self: Value, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Pair:
    """The first k of the sorted row, of which all comes in order, asked for or not."""
    count = number(builder, k)
    if count == 1 and self.dtype != torch.bool:
        return max_dim(builder, self, dim, True) if largest else min_dim(builder, self, dim, True)
    dim = _needs_a_row(builder, self, dim, count)
    if count < 1:
        raise Declined("the largest none")
    if count == self.shape[dim].hint:
        builder.expect_length(self, dim)
        return _sorted(builder, _named("topk"), self, dim, descending=largest)
    return _sorted(builder, _named("topk"), self, dim, descending=largest, count=count)


@rule("kthvalue.default")
def kthvalue(builder: Builder, self: Value, k: Any, dim: int = -1, keepdim: bool = False) -> Pair:
    row = _laid_last(builder, self, _needs_a_row(builder, self, dim))
    return _at_rank(builder, "kthvalue", row, dim, keepdim, as_expr(number(builder, k) - 1, torch.int64))


@rule("median.dim")
def median_dim(builder: Builder, self: Value, dim: int, keepdim: bool = False) -> Pair:
    """The lower of the two in the middle; where there are NaN, the first of them."""
    return _middle(builder, "median", self, dim, keepdim)


@rule("nanmedian.dim")
def nanmedian_dim(builder: Builder, self: Value, dim: int, keepdim: bool = False) -> Pair:
    """The lower of the two in the middle of what is no NaN."""
    return _middle(builder, "nanmedian", self, dim, keepdim)


@rule("median.default")
def median(builder: Builder, self: Value) -> Value:
    return median_dim(builder, _flat(builder, self), 0)[0]


@rule("nanmedian.default")
def nanmedian(builder: Builder, self: Value) -> Value:
    return nanmedian_dim(builder, _flat(builder, self), 0)[0]


def _flat(builder: Builder, x: Value) -> Value:
    if len(x.shape) < 2:
        return x
    symbols = [size.symbol if size.symbol is not None else size.hint for size in x.shape]
    return builder.flatten(x, 0, len(x.shape) - 1, Size(math.prod(x.hints), math.prod(symbols)))


def _middle(builder: Builder, label: str, x: Value, dim: int, keepdim: bool) -> Pair:
    """Find the rank of the median, before the NaN that a sort leaves last."""
    row = _laid_last(builder, x, _needs_a_row(builder, x, dim))
    n = builder.count([row.shape[-1]], torch.int64)
    middle = call("int_div", n - 1, 2)
    if x.dtype.is_floating_point:
        flag = builder.pointwise("_missing", cast(is_nan(read(builder, row)), torch.int64), torch.int64)
        count = builder.reduce("sum", flag, [len(row.shape) - 1], torch.int64, label="_n_missing")
        missing = Ref(torch.int64, count)
        without = call("int_div", call("maximum", n - missing - 1, 0), 2)
        chosen = where(missing > 0, n - missing, middle) if label == "median" else without
        middle = Ref(torch.int64, builder.pointwise("_rank", chosen, torch.int64))
    return _at_rank(builder, label, row, dim, keepdim, middle)


def _at_rank(builder: Builder, label: str, row: Value, dim: int, keepdim: bool, rank: Expr) -> Pair:
    """Pick one element of each sorted row, and its place; `dim` is where the row's dimension was."""
    along = len(row.shape) - 1
    values, places = builder.order(("_sorted", "_places"), row, is_descending=False)
    found = []
    for value, name in zip((values, places), _named(label), strict=True):
        element = read(builder, value)
        is_float = element.dtype.is_floating_point
        lowest = as_expr(-math.inf if is_float else torch.iinfo(element.dtype).min, element.dtype)
        here = where(equal(builder.index(value, along), rank), element, lowest)
        chosen = builder.pointwise("_chosen", here, value.dtype)
        picked = builder.squeeze(builder.reduce("max", chosen, [along], value.dtype, label=name), [along])
        found.append(builder.unsqueeze(picked, dim % len(row.shape)) if keepdim else picked)
    return found[0], found[1]
