"""Scans: running sums and their like along one dimension, what is read and written beside them fused.

Lanes outside the tensor come last in a block and change nothing that is stored, so no scan needs a mask.
"""

from __future__ import annotations

import re

import torch

from backends.compiler import scanframes
from backends.compiler.axes import layout
from backends.compiler.body import Body
from backends.compiler.expression import compute_dtype
from backends.compiler.group import Group
from backends.compiler.ir import Op, Pointwise, Scan, Value
from backends.compiler.kernel import KernelText, Squeezed, assembled, planned
from backends.compiler.passes import MASKS, loop
from backends.compiler.text import TYPES, literal

COMBINE = {
    "logsumexp": "log_of_sum",
    "max": "larger_of",
    "min": "smaller_of",
    "argmax": "later_larger",
    "argmin": "later_smaller",
}
"""The carried function that combines two neighbours, where Triton has no scan of the kind itself."""
PLACES = ("argmax", "argmin")
OWN_NAMES = ("start", "is_last", "before")


def write(group: Group, squeezed: Squeezed, name: str) -> KernelText:
    """Write one or several scans of a direction, with their producers and their tail."""
    frame = scanframes.choose(layout(group), reverse=group.scans[0].reverse)
    plan = planned(group, frame, squeezed, OWN_NAMES)
    body = Body(group, plan.frame, plan.signature)
    return assembled(plan, body, _Walk(body).lines(), name)


def neutral(kind: str, dtype: torch.dtype) -> str:
    """Write the number that changes nothing in a scan of this kind."""
    if kind in ("sum", "prod"):
        return literal(int(kind == "prod"), dtype)
    is_min = kind in ("min", "argmin")
    if dtype.is_floating_point:
        return literal(float("inf") if is_min else float("-inf"), dtype)
    limits = torch.iinfo(dtype)
    return str(limits.max if is_min else limits.min)


class _Walk:
    """Writes the lines of one walk along the dimension, and what a step hands to the next."""

    def __init__(self, body: Body) -> None:
        self.body, self.frame = body, body.frame
        self.axis, self.is_wide = body.frame.axis, bool(body.layout.inner)
        self.names: dict[Value, str] = {}
        self.before: list[str] = []

    def lines(self) -> list[str]:
        """Write the loop, or the one step of short rows."""
        group, along = self.body.group, set(self.body.layout.reduced)
        if self.frame.loop:
            once = [leaf for leaf in group.in_place if not set(self.body.layout.covered(leaf)) & along]
            self.before += [self.body.load(leaf, self.names) for leaf in once]
        made = group.values
        step = [*self.frame.step, MASKS] if self.frame.loop else []
        for op in group.ops:
            missing = [value for value in op.in_place if value not in self.names and value not in made]
            loads = [self.body.load(value, self.names) for value in missing]
            step += self._shifted(op, loads) if isinstance(op, Scan) and op.exclusive else loads
            step += self._scan(op) if isinstance(op, Scan) else self._element(op)
        step += [self.body.store(value, self.names) for value in group.outputs]
        return [*self.before, *(loop(self.body, step) if self.frame.loop else step)]

    def _element(self, op: Op) -> list[str]:
        assert isinstance(op, Pointwise)
        return self.body.steps(op, self.names)

    def _shifted(self, op: Scan, loads: list[str]) -> list[str]:
        """Read the place before each, and nothing before the first."""
        place, dtype = self.body.layout.place, compute_dtype(op.source.dtype)
        inside = self.body.mask("all")
        plain = f"mask={inside}, other={literal(0, dtype)}"
        guarded = f"mask={inside} & (before >= 0), other={neutral(op.kind, dtype)}"
        moved = [re.sub(rf"\b{place}\b", "before", line).replace(plain, guarded) for line in loads]
        return [f"before = {place} - 1", *moved]

    # ---- one scan -------------------------------------------------------------------------------

    def _scan(self, op: Scan) -> list[str]:
        if op.out in self.names:
            return []  # written together with its pair
        source, name = self.names[op.source], self.body.name(op)
        self.names[op.out] = name
        value, place = self._pair(op)
        if place is not None:
            return self._places(place, value, source)
        if op.kind in ("sum", "prod"):
            scanned = f"tl.cum{op.kind}({source}, {self.axis})"
        else:
            scanned = f"tl.associative_scan({source}, {self.axis[-1]}, {COMBINE[op.kind]})"
        if not self.frame.loop:
            return [f"{name} = {scanned}"]
        carry = self._start(self._carry(name), neutral(op.kind, compute_dtype(op.out.dtype)), op.out.dtype)
        if op.kind == "sum":
            total = f"tl.sum({source}, {self.axis}{', keep_dims=True' if self.is_wide else ''})"
            return [f"{name} = {carry} + {scanned}", f"{carry} += {total}"]
        joined = f"{carry} * {scanned}" if op.kind == "prod" else f"{COMBINE[op.kind]}({carry}, {scanned})"
        return [f"{name} = {joined}", f"{carry} = {self._last(name)}"]

    def _pair(self, op: Scan) -> tuple[Scan | None, Scan | None]:
        """Find the scan of values and the scan of places that one scan of pairs gives."""
        kinds = {other.kind: other for other in self.body.group.scans if other.source is op.source}
        kind = op.kind.removeprefix("arg")
        return kinds.get(kind), kinds.get(f"arg{kind}")

    def _places(self, op: Scan, beside: Scan | None, source: str) -> list[str]:
        """Scan pairs of a value and its place."""
        function, names, name = COMBINE[op.kind], self.body.signature.names, self.body.name(op)
        value = self.body.name(beside) if beside else names.unused(f"{name}_value")
        self.names.update({scan.out: self.body.name(scan) for scan in (op, beside) if scan})
        places = f"{self.body.layout.place}.to(tl.int64)"
        if self.frame.tile != "(BLOCK,)":
            places = f"tl.broadcast_to({places}, {self.frame.tile})"
        pair = f"{value}, {name}"
        scanned = f"{pair} = tl.associative_scan(({source}, {places}), {self.axis[-1]}, {function})"
        if not self.frame.loop:
            return [scanned]
        dtype = compute_dtype(op.source.dtype)
        best = self._start(names.unused("best"), neutral(op.kind, dtype), dtype)
        at = self._start(names.unused("best_at"), "0", torch.int64)
        return [
            scanned,
            f"{pair} = {function}({best}, {at}, {pair})",
            f"{best} = {self._last(value)}",
            f"{at} = {self._last(name)}",
        ]

    # ---- from block to block --------------------------------------------------------------------

    def _carry(self, name: str) -> str:
        names = self.body.signature.names
        return names.unused("carry" if len(self.body.group.scans) == 1 else f"{name}_carry")

    def _start(self, carry: str, number: str, dtype: torch.dtype) -> str:
        """Define what a scan hands from block to block."""
        shape = "(1, BLOCK)" if self.is_wide else "()"
        self.before.append(f"{carry} = tl.full({shape}, {number}, {TYPES[compute_dtype(dtype)]})")
        return carry

    def _last(self, name: str) -> str:
        """Write the number in a block's last lane."""
        size = "BLOCK_ROWS" if self.is_wide else "BLOCK"
        is_last = f"tl.arange(0, {size}) == {size} - 1"
        line = f"is_last = ({is_last})[:, None]" if self.is_wide else f"is_last = {is_last}"
        self.before[:0] = [] if line in self.before else [line]
        return f"tl.sum(tl.where(is_last, {name}, 0), {self.axis}{', keep_dims=True' if self.is_wide else ''})"
