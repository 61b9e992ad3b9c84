"""Halves of a tensor that gate each other."""

from __future__ import annotations

from backends.compiler.build import Builder
from backends.compiler.expression import call, cast, compute_dtype
from backends.compiler.indexed import measure
from backends.compiler.ir import Value
from backends.compiler.rules import rule
from backends.compiler.rules.movement import lengths, needs_elements, places


@rule("glu.default")
def glu(builder: Builder, self: Value, dim: int) -> Value:
    """The first half of a dimension times the sigmoid of the second."""
    needs_elements(builder, self)
    dim %= len(self.shape)
    builder.expect_length(self, dim, "{0} % 2", 0)
    half = measure("{0} // 2", self.shape[dim].hint // 2, "half", (self, dim))
    own, extents = places(builder), lengths(self)
    beyond, extents[dim] = [*own[:dim], own[dim] + half, *own[dim + 1 :]], half
    kind = compute_dtype(builder.dtype)
    value, gate = (cast(builder.read(self, place), kind) for place in (own, beyond))
    return builder.mapped("glu", value * call("sigmoid", gate), extents)
