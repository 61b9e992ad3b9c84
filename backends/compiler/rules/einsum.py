"""einsum, operand by operand: a matrix product where rows, columns and a sum meet, else a product and a sum."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from backends.compiler import viewmaps
from backends.compiler.build import Builder
from backends.compiler.expression import compute_dtype
from backends.compiler.ir import Value
from backends.compiler.rules import Declined, rule
from backends.compiler.rules.matmul import multiply
from backends.compiler.rules.reduction import finish, read, total

Term = tuple[str, Value]
"""A tensor and a letter for each of its dimensions."""


@rule("einsum.default")
def einsum(builder: Builder, equation: str, tensors: list[Value], path: Any = None) -> Value:
    *operands, result = _letters(equation, tensors)
    if any(not x.dtype.is_floating_point or x.dtype != tensors[0].dtype for x in tensors):
        raise Declined(f"an einsum of {', '.join(str(x.dtype) for x in tensors)}")
    terms = list(zip(operands, tensors, strict=True))
    so_far = terms[0]
    for number, term in enumerate(terms[1:], start=2):
        wanted = result + "".join(letters for letters, _ in terms[number:])
        so_far = _joined(builder, so_far, term, wanted)
    letters, x = _without(builder, so_far, result)
    return _arranged(builder, x, letters, result)


def _letters(equation: str, tensors: list[Value]) -> list[str]:
    """Return a letter for each dimension of the operands, then of the result; "..." stands for as many as it takes."""
    inputs, arrow, result = equation.replace(" ", "").partition("->")
    parts = inputs.split(",")
    if len(parts) != len(tensors):
        raise Declined("an einsum in another form")
    if not arrow:
        once = [letter for letter in sorted(set(inputs) - {",", "."}) if inputs.count(letter) == 1]
        result = ("..." if "..." in inputs else "") + "".join(once)
    free = [letter for letter in string.ascii_letters if letter not in equation]
    hidden = [len(x.shape) - len(part.replace("...", "")) for part, x in zip(parts, tensors, strict=True)]
    dots = "".join(free[: max(hidden)])
    named = [part.replace("...", dots[len(dots) - count :]) for part, count in zip(parts, hidden, strict=True)]
    named.append(result.replace("...", dots))
    if any(len(set(part)) != len(part) for part in named):
        raise Declined("an einsum along a diagonal")
    _check_sizes(named, tensors)
    return named


def _check_sizes(named: list[str], tensors: list[Value]) -> None:
    sizes: dict[str, int] = {}
    for part, tensor in zip(named, tensors, strict=False):
        for letter, size in zip(part, tensor.hints, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise Declined("an einsum that broadcasts")


def _without(builder: Builder, term: Term, wanted: str) -> Term:
    """Sum over the dimensions that nobody asks for any more."""
    letters, x = term
    dims = [place for place, letter in enumerate(letters) if letter not in wanted]
    if not dims:
        return term
    kept = "".join(letter for letter in letters if letter in wanted)
    return kept, finish(builder, total(builder, x, dims, x.dtype, label="einsum"), dims, False)


def _joined(builder: Builder, left: Term, right: Term, wanted: str) -> Term:
    """Multiply two terms and sum over what only they have."""
    left, right = _without(builder, left, right[0] + wanted), _without(builder, right, left[0] + wanted)
    batch = [c for c in left[0] if c in right[0] and c in wanted]
    summed = [c for c in left[0] if c in right[0] and c not in wanted]
    rows, columns = [c for c in left[0] if c not in right[0]], [c for c in right[0] if c not in left[0]]
    if rows and columns and summed:
        return _matrix_product(builder, left, right, batch, rows, columns, summed)
    order = [*batch, *rows, *columns, *summed]
    a, b = (_spread(builder, x, letters, order) for letters, x in (left, right))
    dtype = compute_dtype(a.dtype) if summed else a.dtype
    terms = builder.pointwise("_terms" if summed else "einsum", read(builder, a) * read(builder, b), dtype)
    if not summed:
        return "".join(order), terms
    dims = list(range(len(order) - len(summed), len(order)))
    y = finish(builder, builder.reduce("sum", terms, dims, a.dtype, label="einsum"), dims, False)
    return "".join(order[: -len(summed)]), y


def _matrix_product(
    builder: Builder,
    left: Term,
    right: Term,
    batch: list[str],
    rows: list[str],
    columns: list[str],
    summed: list[str],
) -> Term:
    """Leave one letter each for rows, columns and the sum; all others count the products, broadcast where missing."""
    *more, k = summed
    *higher_columns, n = columns
    if batch or more or higher_columns:
        *higher_rows, m = rows
        lead = [*batch, *more, *higher_rows, *higher_columns]
        a_order, b_order, order = [*lead, m, k], [*lead, k, n], [*lead, m, n]
    else:  # any number of rows against one matrix
        a_order, b_order, order = [*rows, k], [k, n], [*rows, n]
    a, b = _spread(builder, left[1], left[0], a_order), _spread(builder, right[1], right[0], b_order)
    return _without(builder, ("".join(order), multiply(builder, a, b)), "".join(c for c in order if c not in more))


def _spread(builder: Builder, x: Value, letters: str, order: Sequence[str]) -> Value:
    """Bring the dimensions into an order, with one of size 1 for each letter that is missing."""
    x = _arranged(builder, x, letters, [letter for letter in order if letter in letters])
    for place, letter in enumerate(order):
        if letter not in letters:
            x = builder.unsqueeze(x, place)
    return x


def _arranged(builder: Builder, x: Value, letters: Sequence[str], wanted: Sequence[str]) -> Value:
    """Permute on the host: a matrix product reads its operands by their strides."""
    order = [list(letters).index(letter) for letter in wanted]
    if order == sorted(order):
        return x
    shape = tuple(x.shape[place] for place in order)
    text = f"{{0}}.permute({', '.join(map(str, order))})"
    return builder.view(x, shape, text, label="permute", dense=False, map=viewmaps.permuted(x, order))
