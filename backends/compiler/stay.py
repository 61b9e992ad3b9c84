"""What stays in PyTorch: one operator as a call, or a whole torch.nn module where a part of it stays."""

from __future__ import annotations

import operator
from typing import Any

import torch

from backends import NothingToConvert
from backends.compiler import extern
from backends.compiler.arguments import is_state
from backends.compiler.environment import Environment, traced
from backends.compiler.host import state_text
from backends.compiler.ir import Extern, Value
from backends.compiler.nodes import leaf_call, mutated_argument, op_name, sizes, writes_in_place
from backends.compiler.reasons import why


def stay(env: Environment, node: torch.fx.Node, arguments: Any, keywords: Any, reason: str) -> Any:
    """Leave an operator to PyTorch and return its result, or a list of them."""
    text, operands = extern.call_text(node.target, arguments, keywords, env.host)
    value = node.meta["val"]
    results = [value] if isinstance(value, torch.Tensor) else list(value) if value is not None else []
    label = op_name(node)
    first = next((r for r in results if isinstance(r, torch.Tensor)), None)
    if first is None:
        raise NothingToConvert("not_convertible", f"{label} returns no tensor", "", None)
    out = Value(label, sizes(first.shape), first.dtype)
    op = Extern(label, out, env.builder.origin, text, operands, reason or why(label))
    op.is_work = extern.is_work(node.target)
    mutated = mutated_argument(node)
    op.is_barrier = mutated is not None
    out.op, out.dense = op, False
    if mutated is not None and isinstance(env.values.get(mutated), Value):
        out.aliases = env.values[mutated]
    elif not op.is_work and operands:
        out.aliases = operands[0]
    env.builder.ops.append(op)
    if isinstance(value, torch.Tensor):
        return out
    op.results = [_item(op, index, tensor) for index, tensor in enumerate(value)]
    return op.results


def _item(op: Extern, index: int, tensor: Any) -> Value | None:
    if not isinstance(tensor, torch.Tensor):
        return None
    item = Value(f"{op.label}_{index}", sizes(tensor.shape), tensor.dtype, dense=False)
    item.op, item.aliases = op, op.out.aliases
    return item


def is_module_call(env: Environment, run: list[torch.fx.Node]) -> bool:
    """Tell whether nodes can be written as one call of a module: a tensor in, a tensor out."""
    inside = set(run)
    state = env.captured.program.graph_signature
    held = {*state.inputs_to_parameters, *state.inputs_to_buffers}
    given = {
        source for node in run for source in node.all_input_nodes
        if source not in inside and source.name not in held and isinstance(source.meta.get("val"), torch.Tensor)
    }
    left = [node for node in run if any(user not in inside for user in node.users)]
    return len(given) == 1 and len(left) == 1 and isinstance(left[0].meta.get("val"), torch.Tensor)


def module_call(env: Environment, run: list[torch.fx.Node], reason: str) -> None:
    """Write the nodes of one module call as that call."""
    inside = set(run)
    result = next(node for node in run if any(user not in inside for user in node.users))
    given = next(
        env.values[source] for node in run for source in node.all_input_nodes
        if source not in inside and isinstance(env.values.get(source), Value) and not is_state(env, source)
    )
    call = leaf_call(run[0])
    assert call is not None
    env.builder.origin = env.origin(result)
    working = (n for n in run if n.target is not operator.getitem and not writes_in_place(n.target))
    label = op_name(next(working, result))
    out = traced(result, label)
    op = Extern(label, out, env.builder.origin, f"{state_text(call[0])}({{0}})", [given], reason)
    out.op, out.dense = op, False
    env.builder.ops.append(op)
    env.values[result] = out
