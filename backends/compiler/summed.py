"""How far the sums of a product's tile go: not over what the program itself makes 0 in a factor (a triangle, diag).

0 times what is not finite is NaN: the other factor is looked at there all the same, which takes no product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from backends.compiler.ir import MatMul, Pointwise, Value
from backends.compiler.product import Product, is_batched
from backends.compiler.triangle import Triangle, kept, triangles

ROWS, COLUMNS = "tile_m * BLOCK_M", "tile_n * BLOCK_N"
"""The tile's first row and column."""


@dataclass(frozen=True)
class Zeros:
    """A factor is 0 before the k of `begin`, or from that of `end` on, in all of a tile; `meets` is the other one."""

    meets: str
    begin: str = ""
    end: str = ""


@dataclass(frozen=True)
class Sums:
    """The range of k, and the lines that compute it; `depth` is where it would end without a factor's zeros."""

    begin: str
    end: str
    depth: str
    lines: list[str]
    zeros: list[Zeros]


def sums(product: Product) -> Sums:
    """Find the range of a tile's sums."""
    result, zeros = kept(product.group), _zeros(product.op)
    depth = "depth" if result else "K"
    begins, ends = [z.begin for z in zeros if z.begin], [z.end for z in zeros if z.end]
    lines = result.depth if result else []
    lines += ["# where a factor is 0, as the program has made it, there is nothing to sum"] if zeros else []
    lines += [f"begin = {_nested('max', [*begins, '0'])} // BLOCK_K * BLOCK_K"] if begins else []
    lines += [f"end = max({_nested('min', [*ends, depth])}, 0)"] if ends else []
    return Sums("begin" if begins else "0", "end" if ends else depth, depth, lines, zeros)


def looks(found: Sums, a_rows: str, b_columns: str) -> list[str]:
    """Look at what meets zeros, given where rows of a and columns of b begin: it adds 0, or NaN where not finite."""
    lines = []
    for zeros in found.zeros:
        first, last = ("0", f"min(begin, {found.depth})") if zeros.begin else ("end", found.depth)
        if zeros.meets == "b":
            part = f"{b_columns}, column < N, k[:, None], {first}, {last}, K, stride_bk, BLOCK_K, BLOCK_N, BLOCK_K"
            lines.append(f"acc += tl.sum(times_zero({part}), axis=0)[None, :]")
        else:
            part = f"{a_rows}, row < M, k[None, :], {first}, {last}, K, stride_ak, BLOCK_M, BLOCK_K, BLOCK_K"
            lines.append(f"acc += tl.sum(times_zero({part}), axis=1)[:, None]")
    return lines


def _zeros(op: MatMul) -> list[Zeros]:
    of_a = _made(op.a) if is_batched(op) or len(op.a.shape) == 2 else []
    found = [_along_rows(triangle, ROWS, "BLOCK_M", "b") for triangle in of_a]
    for triangle in _made(op.b):
        if op.b_is_nk:
            found.append(_along_rows(triangle, COLUMNS, "BLOCK_N", "a"))
        elif triangle.is_upper:  # k <= n - diagonal
            found.append(Zeros("a", end=_shifted(f"{COLUMNS} + BLOCK_N", -triangle.diagonal)))
        else:  # k >= n - diagonal
            found.append(Zeros("a", begin=_shifted(COLUMNS, -triangle.diagonal)))
    return found


def _made(factor: Value) -> list[Triangle]:
    """Return the triangles outside of which a factor is 0, if the step that made it says so."""
    return triangles(factor.op.expr) if isinstance(factor.op, Pointwise) else []


def _along_rows(found: Triangle, first: str, block: str, meets: str) -> Zeros:
    """A factor whose rows lie along k, so that k >= row + diagonal, or k <= row + diagonal."""
    if found.is_upper:
        return Zeros(meets, begin=_shifted(first, found.diagonal))
    return Zeros(meets, end=_shifted(f"{first} + {block}", found.diagonal))


def _shifted(text: str, by: int) -> str:
    return f"{text} {'-' if by < 0 else '+'} {abs(by)}" if by else text


def _nested(function: str, parts: list[str]) -> str:
    """Apply a function of two."""
    return reduce(lambda left, right: f"{function}({left}, {right})", parts)
