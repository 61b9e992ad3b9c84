"""The lines an expression needs before its own: places, readings at them, and loops over windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from backends.compiler.expression import Expr, Index, Literal, walk
from backends.compiler.indexed import Checked, Fold, Local, Name, Read, Tap
from backends.compiler.ir import Value
from backends.compiler.margin import TAB
from backends.compiler.text import TYPES, Writer, literal

if TYPE_CHECKING:
    from backends.compiler.body import Body

REFUSAL = "an index is out of range"


class Steps:
    """Collects the lines of one expression; what is in `known` has a name by now."""

    def __init__(self, body: Body, names: dict[Value, str]) -> None:
        self.body = body
        self.known: dict[int, str] = {}
        self.lines: list[str] = []
        self._writer = Writer(names, body.signature.scalars, body.indices(), self.known, body.signature.measures)

    def write(self, x: Expr, least: int = 0) -> str:
        """Return the text of an expression, once what it needs is written."""
        self._prepare(x, "")
        return self._writer.write(x, least)

    def _prepare(self, x: Expr, margin: str) -> None:
        if id(x) in self.known:
            return
        if isinstance(x, Fold):
            self._fold(x, margin)
            return
        for part in x.parts:
            self._prepare(part, margin)
        if isinstance(x, Local):
            self._assign(x, self.body.node_name(x, x.wish), margin, self._writer.write(x.meaning))
        elif isinstance(x, Checked):
            self.lines.append(f'{margin}tl.device_assert({self._writer.write(x.exists)}, "{REFUSAL}")')
            self.known[id(x)] = self._writer.write(x.place)
        elif isinstance(x, Read):
            self._read(x, margin)

    def _assign(self, node: Expr, name: str, margin: str, text: str) -> None:
        self.lines.append(f"{margin}{name} = {text}")
        self.known[id(node)] = name

    def _read(self, read: Read, margin: str) -> None:
        from backends.compiler.body import loaded

        place, mask = self.body.place_of(read)
        self._prepare(place, margin)
        operand = self.body.signature.names_of[read.value]
        guards = [mask] if mask else []
        if read.valid is not None:
            valid = self._writer.write(read.valid, 4)
            if read.is_checked:
                within = f", mask={mask}" if mask else ""
                self.lines.append(f'{margin}tl.device_assert({valid}, "{REFUSAL}"{within})')
            guards.append(valid)
        where = self._writer.write(place)
        is_one_place = not any(isinstance(node, (Index, Tap, Read, Name)) for node in walk(place))
        if guards and is_one_place and self.body.layout.axes:
            where = f"{where} + tl.zeros({self.body.frame.tile}, tl.int32)"  # Triton masks no single pointer
        text = loaded(operand, "" if where == "0" else where, " & ".join(guards), read.value.dtype, read.fill)
        name = self.body.node_name(read, read.wish) if read.wish else self.body.element_name(read)
        self._assign(read, name, margin, text)

    # ---- windows --------------------------------------------------------------------------------

    def _fold(self, fold: Fold, margin: str) -> None:
        """Loop over a window, each line as far outside as it can be."""
        self._ahead(fold, list(fold.taps), margin)
        result = self.body.node_name(fold, fold.wish or fold.kind)
        best = self._begin(fold, result, margin)
        before = dict(self.known)
        inner = margin
        for depth, tap in enumerate(fold.taps):
            name = self.body.node_name(tap, tap.wish)
            self.lines.append(f"{inner}for {name} in range({self._writer.write(tap.count)}):")
            self.known[id(tap)] = name
            inner += TAB
            self._ahead(fold, list(fold.taps[depth + 1 :]), inner)
        self._prepare(fold.element, inner)
        element = self._writer.write(fold.element)
        if fold.kind == "last":
            self._prepare(fold.places[1], inner)
            counts = self._writer.write(fold.places[1])
            self.lines.append(f"{inner}{result} = tl.where({counts}, {element}, {result})")
        elif fold.places:
            self._prepare(fold.places[1], inner)
            better, place = self.body.signature.names.unused("better"), self._writer.write(fold.places[1])
            self.lines += [inner + line for line in _tracked(best, result, element, place, better)]
        else:
            self.lines.append(inner + _updated(fold, result, element))
        self.known.clear()
        self.known.update(before)
        self.known[id(fold)] = result

    def _begin(self, fold: Fold, result: str, margin: str) -> str:
        """Write what a loop starts from; return the name of what it keeps the best of."""
        dtype, tile = TYPES[fold.element.dtype], self.body.frame.tile
        if fold.kind not in ("argmax", "last"):
            self.lines.append(f"{margin}{result} = tl.full({tile}, {_start(fold)}, {dtype})")
            return result
        self._prepare(fold.places[0], margin)
        if fold.kind == "last":
            first = self._writer.write(fold.places[0])
            is_number = isinstance(fold.places[0], Literal)
            whole = f"tl.full({tile}, {first}, {dtype})" if is_number else f"tl.broadcast_to({first}, {tile})"
            self.lines.append(f"{margin}{result} = {whole}")
            return result
        best = self.body.signature.names.unused("best")
        self.lines.append(f"{margin}{result} = {self._writer.write(fold.places[0], 6)} + tl.zeros({tile}, tl.int64)")
        self.lines.append(f"{margin}{best} = tl.full({tile}, {_start(fold)}, {dtype})")
        return best

    def _ahead(self, fold: Fold, later: list[Tap], margin: str) -> None:
        """Write what does not depend on the loops still to be opened."""
        for node in [node for tree in (fold.element, *fold.places[1:]) for node in walk(tree)]:
            if isinstance(node, (Local, Read)) and not any(part is tap for part in walk(node) for tap in later):
                self._prepare(node, margin)


def _start(fold: Fold) -> str:
    if fold.kind == "sum":
        return literal(0, fold.element.dtype)
    dtype = fold.element.dtype
    return 'float("-inf")' if dtype.is_floating_point else str(torch.iinfo(dtype).min)


def _updated(fold: Fold, acc: str, element: str) -> str:
    if fold.kind == "sum":
        return f"{acc} += {element}"
    nan = ", propagate_nan=tl.PropagateNan.ALL" if fold.element.dtype.is_floating_point else ""
    return f"{acc} = tl.maximum({acc}, {element}{nan})"


def _tracked(best: str, at: str, element: str, place: str, better: str) -> list[str]:
    """Keep the place of the largest element so far; the last NaN wins, as in PyTorch."""
    return [
        f"{better} = ({element} > {best}) | ({element} != {element})",
        f"{best} = tl.where({better}, {element}, {best})",
        f"{at} = tl.where({better}, {place}, {at})",
    ]
