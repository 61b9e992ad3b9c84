"""Operators without a rule, taken apart by PyTorch's own decompositions into operators that may have one.

A decomposition is traced with the shapes at hand; what it asks of them becomes a condition of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import sympy
import torch
import torch._refs  # registers decompositions
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from backends.compiler.ir import Extern, Op, View
from backends.compiler.nodes import sizes, writes_in_place

WHOLE = re.compile(r"conv|lstm|gru|rnn|rand|normal|bernoulli|multinomial|dropout|poisson|uniform|exponential|attention")
"""Operators whose decomposition is no better than they are: loops over time, and random numbers in another order."""

MOST = 128
"""Parts beyond which nobody would keep the text: of bicubic sampling 468 came to 2,100 lines and 19 launches."""


@dataclass(frozen=True)
class Parts:
    """What an operator consists of: a graph, and the nodes that its placeholders stand for.

    `graph` is None where PyTorch knows no parts; `conditions` on sizes are what tracing found true.
    """

    graph: torch.fx.Graph | None = None
    given: tuple[torch.fx.Node, ...] = ()
    conditions: tuple[Any, ...] = ()

    @property
    def ties(self) -> list[Any]:
        """Equalities: from now on the trace takes one size for the other, whatever becomes of the parts."""
        return [condition for condition in self.conditions if isinstance(condition, sympy.Equality)]


def taken_apart(node: torch.fx.Node) -> Parts:
    """Trace what an operator consists of."""
    formula = _formula(node.target)
    if formula is None:
        return Parts()
    flat, spec = pytree.tree_flatten((node.args, node.kwargs))
    given = [leaf for leaf in flat if isinstance(leaf, torch.fx.Node)]
    if any(_is_empty(leaf.meta["val"]) for leaf in (node, *given)):
        return Parts()

    def call(*leaves: Any) -> Any:
        rest = iter(leaves)
        arguments, keywords = pytree.tree_unflatten(
            [next(rest) if isinstance(leaf, torch.fx.Node) else leaf for leaf in flat], spec
        )
        return formula(*arguments, **keywords)

    graph, conditions = _traced(call, [leaf.meta["val"] for leaf in given], node.target)
    for inner in graph.nodes if graph is not None else ():
        for key in ("stack_trace", "nn_module_stack"):
            inner.meta[key] = node.meta.get(key)
    return Parts(graph, tuple(given), conditions)


def _is_empty(value: Any) -> bool:
    """Tell whether a tensor has no elements: decompositions take many another way there."""
    return isinstance(value, torch.Tensor) and any(size.hint == 0 for size in sizes(value.shape))


def _formula(target: Any) -> Callable[..., Any] | None:
    """Find how PyTorch itself writes an operator by others."""
    is_operator = isinstance(target, torch._ops.OpOverload) and target.namespace == "aten"
    if not is_operator or writes_in_place(target) or WHOLE.search(target._schema.name):
        return None
    if target in decomposition_table:
        return decomposition_table[target]
    with suppress(RuntimeError):  # torch cannot say it of operators that return numbers
        return target.decompose if target._can_decompose() else None
    return None


def _traced(call: Callable[..., Any], values: list[Any], target: Any) -> tuple[torch.fx.Graph | None, tuple[Any, ...]]:
    mode = next((value.fake_mode for value in values if isinstance(value, FakeTensor)), None)
    if mode is None:
        return None, ()
    found = mode.shape_env.guards if mode.shape_env is not None else []
    known = len(found)
    graph = _graph(call, values, target, mode)
    return graph, tuple(guard.expr for guard in found[known:])


def _graph(call: Callable[..., Any], values: list[Any], target: Any, mode: FakeTensorMode) -> torch.fx.Graph | None:
    """Trace down to operators as a person writes them, or, where those are all there is, one level further."""
    for function, is_early in ((call, True), (call, False), (torch.func.functionalize(call), False)):
        with suppress(Exception), mode, torch.no_grad():  # a decomposition may not know these arguments
            graph = make_fx(function, tracing_mode="real", pre_dispatch=is_early)(*values).graph
            targets = [inner.target for inner in graph.nodes if inner.op == "call_function"]
            are_known = len(targets) <= MOST and not any(isinstance(part, type) for part in targets)  # named tuples
            if are_known and target not in targets and not any(map(writes_in_place, targets)):
                return graph
    return None


def named_as_one(ops: Sequence[Op], label: str) -> None:
    """Call the last of an operator's parts what the user does, and the others nothing."""
    working = [op for op in ops if not isinstance(op, (View, Extern))]
    for op in working:
        op.label = label if op is working[-1] else f"_{op.label.lstrip('_')}"
