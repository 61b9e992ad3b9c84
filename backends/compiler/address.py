"""Where an element that is read at computed places lies in memory: Horner's rule over the source's dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby

import torch

from backends.compiler.axes import Axis, Layout
from backends.compiler.expression import Call, Expr, Index, Literal, Ref
from backends.compiler.frame import Frame
from backends.compiler.indexed import PLACE, Measure, Name, Read, length, measures, plus, times
from backends.compiler.indices import places, position
from backends.compiler.ir import Value
from backends.compiler.viewmaps import product


def axes_of(read: Read, layout: Layout) -> tuple[Axis, ...]:
    """The axes along which a reading moves."""
    rank, moving = len(layout.domain), set()
    for node in places(read):
        if isinstance(node, Index):
            moving |= {axis for axis in layout.axes if rank - node.from_end in axis.dims}
        elif isinstance(node, Ref):
            moving |= set(layout.covered(node.value))
        elif isinstance(node, Read):
            moving |= set(axes_of(node, layout))
    return tuple(axis for axis in layout.axes if axis in moving)


def offset(read: Read, frame: Frame) -> Expr:
    """Write the offset of the element that is read, in a dense tensor."""
    return _horner(_terms(read, frame), frame)


def _horner(terms: list[Term], frame: Frame) -> Expr:
    if not terms:
        return Literal(PLACE, 0)
    first, *rest = terms
    if isinstance(first.index, (Literal, Measure)):
        return plus(_horner(rest, frame), _start(first.index, rest)) if rest else first.index
    total = first.index if _is_wide(first.index, frame) or not rest else Call(torch.int64, "cast", (first.index,))
    for term in rest:
        total = plus(times(total, term.size), term.index)
    return total


def _start(index: Literal | Measure, rest: list[Term]) -> Expr:
    """Where a fixed place begins: the launcher's product, which may pass 2**31."""
    if isinstance(index, Literal) and index.number == 0:
        return index
    lengths, text = ((), str(index.number)) if isinstance(index, Literal) else (index.lengths, f"({index.text})")
    behind = [(value, at) for term in rest for value, at in term.lengths if value.shape[at].hint != 1]
    sizes = [f"{{{number}}}" for number in range(len(lengths), len(lengths) + len(behind))]
    number = int(index.number) * math.prod(value.shape[at].hint for value, at in behind)
    return Measure(PLACE, " * ".join([text, *sizes]), (*lengths, *behind), number, "start")


@dataclass(frozen=True)
class Term:
    """An index, the length it runs over, and the source's dimensions that it stands for."""

    index: Expr
    size: Expr
    lengths: tuple[tuple[Value, int], ...]


def starts(read: Read, frame: Frame) -> list[Measure]:
    """The launcher's numbers in a reading's address."""
    return measures(offset(read, frame))


def _terms(read: Read, frame: Frame) -> list[Term]:
    """Give each index its length; dimensions that one axis covers are one term."""
    layout, rank, value = frame.layout, len(frame.layout.domain), read.value
    at_axis = {at: axis for axis in layout.axes for dim in axis.dims if (at := position(read, rank - dim)) is not None}
    several = [at for at, size in enumerate(value.shape) if size.hint != 1]
    terms: list[Term] = []
    for axis, run in groupby(several, lambda at: at_axis.get(at, at)):
        ats = list(run)
        dims = tuple((value, at) for at in ats)
        if isinstance(axis, int):
            terms.append(Term(read.indices[axis], length(value, axis), dims))
            continue
        is_whole = value.shape[ats[0]] == layout.domain[axis.dims[0]]  # of the first the source may have more
        size = Name(PLACE, "n_elements" if frame.is_flat else axis.size) if is_whole else product(dims)
        terms.append(Term(Name(PLACE, "offsets" if frame.is_flat else axis.name), size, dims))
    return _joined_line(terms, frame)


def _joined_line(terms: list[Term], frame: Frame) -> list[Term]:
    """Use the joint number of the outer axes where all of them lead."""
    count, rest = len(frame.line), terms[len(frame.line) :]
    names = [term.index.text for term in terms[:count] if isinstance(term.index, Name)]
    sizes = [term.size.text for term in terms[:count] if isinstance(term.size, Name)]
    wanted = [axis.size for axis in frame.line[1:]]
    if count < 2 or names != [axis.name for axis in frame.line] or sizes[1 - count :] != wanted:
        return terms
    lengths = tuple(pair for term in terms[:count] for pair in term.lengths)
    return [Term(Name(PLACE, frame.line_name), Literal(PLACE, 1), lengths), *rest]


def _is_wide(x: Expr, frame: Frame) -> bool:
    """Tell whether an index is computed in 64 bits: more than 2**31 elements may lie before it."""
    layout = frame.layout
    wide = {axis.name for axis in (*layout.outer, *(layout.reduced if layout.inner else ()))}
    if not layout.reduced:  # the last axis of an elementwise kernel counts in 32 bits
        wide -= {layout.outer[-1].name} if layout.outer else set()
    rank = len(layout.domain)
    for node in _all(x):
        if isinstance(node, Name) and (node.text in wide or node.text in ("offsets", frame.line_name)):
            return True
        if isinstance(node, Index) and any(a.name in wide for a in layout.axes if rank - node.from_end in a.dims):
            return True
        if isinstance(node, (Ref, Read)) and node.dtype == torch.int64:
            return True
    return False


def _all(x: Expr) -> list[Expr]:
    return [x, *(node for part in x.parts for node in _all(part))]
