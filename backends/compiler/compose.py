"""Producers computed where they are read: what only one kernel reads, at places it computes, need not be stored.

A padded activation or a pooled one is then a single pass over memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from backends.compiler import through
from backends.compiler.expression import Call, Expr, Index, Literal, Ref, as_expr, compute_dtype, transform, walk, where
from backends.compiler.indexed import PLACE, Fold, Local, Read, length, measure, reads, refuses
from backends.compiler.ir import Extern, Op, Pointwise, Value, View

COSTLY = {"exp", "exp2", "log", "log2", "sin", "cos", "erf", "sigmoid", "tanh", "log1p", "expm1", "sqrt", "/"}
"""Functions not worth computing again for every window that an element lies in."""


def compose(ops: Sequence[Op], returned: Sequence[Value]) -> None:
    """Write producers into the operations that read them at computed places, where nobody else reads them."""
    if any(op.has_effect or (isinstance(op, Extern) and op.is_barrier) for op in ops):
        return  # what is read later may have changed
    readers: dict[Value, set[Op]] = {}
    for op in ops:
        for value in op.inputs:
            readers.setdefault(value, set()).add(op)
    for op in ops:
        if isinstance(op, Pointwise):
            while found := next(filter(None, (_link(op, read, readers, returned) for read in reads(op.expr))), None):
                if not _write_in(op, found):
                    break
                for value in found.producer.inputs:
                    readers[value] = (readers[value] - {found.producer}) | {op}


@dataclass(frozen=True)
class _Link:
    """A reading of an operation, and the producer of what it reads, behind views that only it looks through."""

    value: Value
    producer: Pointwise
    views: tuple[View, ...]


def _link(op: Pointwise, read: Read, readers: dict[Value, set[Op]], returned: Sequence[Value]) -> _Link | None:
    value, views, user = read.value, list[View](), op
    if value in op.in_place:
        return None
    at: Value = value
    only: Op = user
    while readers.get(at, set()) == {only} and at not in returned:
        maker = at.op
        if isinstance(maker, Pointwise):
            link = _Link(value, maker, tuple(views))
            return link if _is_worth(op, link) else None
        if not isinstance(maker, View) or maker.map is None:
            return None
        views.append(maker)
        at, only = maker.source, maker
    return None


def _is_worth(op: Pointwise, link: _Link) -> bool:
    """Tell whether a producer is better computed at each reading than once into memory."""
    nodes, made = walk(link.producer.expr), link.producer.out
    if link.producer.into is not None or _is_tail(made):
        return False
    own = [read for read in reads(op.expr) if read.value is link.value]
    if refuses(link.producer.expr) and any(read.valid is not None for read in own):
        return False
    folds = [node for node in walk(op.expr) if isinstance(node, Fold)]
    is_repeated = len(own) > 1 or any(read in walk(fold.element) for fold in folds for read in own)
    is_cheap = not any(isinstance(node, Fold) or (isinstance(node, Call) and node.function in COSTLY) for node in nodes)
    return not is_repeated or (is_cheap and len(link.producer.inputs) <= 2)


def _is_tail(value: Value) -> bool:
    """Tell whether the kernel of a product or of a reduction computes a tensor on its way."""
    op = value.op
    if isinstance(op, View):
        return _is_tail(op.source)
    if isinstance(op, Pointwise):
        return any(_is_tail(source) for source in op.in_place)
    return op is not None and not isinstance(op, Extern)


def _write_in(op: Pointwise, link: _Link) -> bool:
    """Put the producer's expression for each reading of it; False where a length could not be written."""
    producer = link.producer
    written = {id(read): _moved(read, link) for read in reads(op.expr) if read.value is link.value}
    expr = transform(op.expr, lambda node: written.get(id(node)))
    roots = [node.value for node in walk(expr) if isinstance(node, (Ref, Read))]
    claims: list[tuple[int | Expr, Expr]] = [*op.claims, *_claims(producer)]
    try:
        expr = through.rooted(expr, roots)
        extents = tuple(through.rooted(extent, roots) for extent in op.extents or ())
        rooted = tuple(
            (wanted if isinstance(wanted, int) else through.rooted(wanted, roots), through.rooted(found, roots))
            for wanted, found in claims
        )
    except through.Unwritten:
        return False
    op.expr, op.extents, op.claims = expr, extents if op.extents is not None else None, rooted
    op.absorbed = (*producer.absorbed, producer, *op.absorbed)
    return True


def _claims(producer: Pointwise) -> list[tuple[int | Expr, Expr]]:
    """What must hold for a producer's operands, as lengths of its own."""
    own = producer.out
    found: list[tuple[int | Expr, Expr]] = [
        (length(own, wanted) if isinstance(wanted, int) else wanted, extent) for wanted, extent in producer.claims
    ]
    for operand in producer.in_place:
        lead = len(own.shape) - len(operand.shape)
        for dim, size in enumerate(operand.shape):
            held = measure("{0}", size.hint, "", (operand, dim))
            found.append((length(own, lead + dim) if size.hint != 1 else Literal(PLACE, 1), held))
    return found


def _moved(read: Read, link: _Link) -> Expr:
    """Write the producer's expression at the place of one reading."""
    places: Sequence[Expr] = read.indices
    for view in link.views:
        assert view.map is not None
        places = through.at(view.map.indices, places)
    done: dict[int, Expr] = {}

    def visit(node: Expr) -> Expr:
        if id(node) not in done:
            done[id(node)] = _at(node)
        return done[id(node)]

    def _at(node: Expr) -> Expr:
        if isinstance(node, Index):
            return places[len(places) - node.from_end]
        if isinstance(node, Ref):
            return _read_at(node.value, places, read.valid)
        parts = tuple(visit(part) for part in node.parts)
        same = all(new is old for new, old in zip(parts, node.parts, strict=True))
        moved = node if same else node.with_parts(parts)
        if isinstance(moved, Read) and read.valid is not None:
            return replace(moved, valid=read.valid if moved.valid is None else moved.valid & read.valid)
        return moved

    made = visit(link.producer.expr)
    if not isinstance(made, (Read, Literal)):
        made = Local(made.dtype, link.producer.origin.target or link.producer.label.strip("_"), made)
    return made if read.valid is None else where(read.valid, made, as_expr(read.fill, made.dtype))


def _read_at(operand: Value, places: Sequence[Expr], valid: Expr | None) -> Expr:
    own = places[len(places) - len(operand.shape) :]
    at = [Literal(PLACE, 0) if size.hint == 1 else place for size, place in zip(operand.shape, own, strict=True)]
    return Read(compute_dtype(operand.dtype), operand, tuple(at), valid)
