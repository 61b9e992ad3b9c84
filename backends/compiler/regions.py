"""Parts of forward that the exporter sets apart, `with torch.autocast(...)` and `with torch.no_grad()`, put in line.

Gradients play no part here. What autocast does to an operator is read off the trace: where the result has another
dtype than the operands alone would give, the operands were cast to it, and the graph then says so.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from backends import NothingToConvert

AUTOCAST, GRADIENTS = "wrap_with_autocast", "wrap_with_set_grad_enabled"
_BODY = {AUTOCAST: 4, GRADIENTS: 1}
"""Which argument is the part's own graph; behind it come what it reads."""


def put_in_line(module: GraphModule) -> None:
    """Replace each part by its operators, within other parts, too; raise NothingToConvert for another device's."""
    for node in list(module.graph.nodes):
        kind = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
        if kind in _BODY:
            _inline(module, node, kind)


def _inline(module: GraphModule, node: Node, kind: str) -> None:
    if kind == AUTOCAST and node.args[0] != "cpu":
        raise NothingToConvert(
            "not_convertible",
            f"forward enters torch.autocast for {node.args[0]!r}: its casts show there alone",
            "Cast where it matters, with .to(dtype), or convert the module without autocast.",
        )
    body, given = node.args[_BODY[kind]], node.args[_BODY[kind] + 1 :]
    assert isinstance(body, Node) and isinstance(body.target, str)
    part = module.get_submodule(body.target)
    assert isinstance(part, GraphModule)
    put_in_line(part)
    graph, copied = module.graph, dict[Node, Any]()
    arguments = iter(given)
    with graph.inserting_before(node):
        for inner in part.graph.nodes:
            if inner.op == "placeholder":
                copied[inner] = next(arguments)
            elif inner.op == "output":
                _replace(node, [copied.get(result, result) for result in inner.args[0]])
            elif inner.op != "get_attr":
                new = graph.node_copy(inner, lambda old: copied[old])
                copied[inner] = new
                if kind == AUTOCAST:
                    _cast_operands(graph, new)
    graph.erase_node(node)
    if not body.users:
        graph.erase_node(body)


def _replace(node: Node, results: list[Any]) -> None:
    for user in list(node.users):
        assert user.target is operator.getitem
        user.replace_all_uses_with(results[user.args[1]])  # type: ignore[index]
        user.graph.erase_node(user)


def _cast_operands(graph: Graph, node: Node) -> None:
    """Cast what autocast cast: the floating operands of an operator whose result shows it."""
    wanted = _dtype(node.meta.get("val"))
    schema = getattr(node.target, "_schema", None)
    if wanted is None or schema is None or schema.is_mutable or _dtype_alone(node) == wanted:
        return
    for operand in list(node.all_input_nodes):
        value = operand.meta.get("val")
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.dtype == wanted:
            continue
        with graph.inserting_before(node):
            cast = graph.call_function(torch.ops.aten.to.dtype, (operand, wanted))
        cast.meta = {key: node.meta[key] for key in ("stack_trace", "nn_module_stack") if key in node.meta}
        with _mode(value):
            cast.meta["val"] = value.to(wanted)
        node.replace_input_with(operand, cast)
        # the layer's own call would not cast: from here on this is an operator of whoever holds the layer
        node.meta["nn_module_stack"] = dict(list(node.meta.get("nn_module_stack", {}).items())[:-1])


def _dtype_alone(node: Node) -> torch.dtype | None:
    """The dtype that the operator gives without autocast; None where it takes no such operands."""
    arguments, keywords = pytree.tree_map_only(Node, lambda operand: operand.meta["val"], (node.args, node.kwargs))
    try:
        with _mode(next(_tensors(arguments))), torch.no_grad(), torch.autocast("cpu", enabled=False):
            return _dtype(node.target(*arguments, **keywords))  # type: ignore[operator]
    except Exception:  # whatever PyTorch says of two dtypes that it takes together only under autocast
        return None


def _dtype(value: Any) -> torch.dtype | None:
    first = next(_tensors(value), None)
    return first.dtype if first is not None and first.is_floating_point() else None


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


def _mode(value: torch.Tensor) -> Any:
    """The mode whose tensor without data this is."""
    return value.fake_mode if isinstance(value, FakeTensor) else contextlib.nullcontext()
