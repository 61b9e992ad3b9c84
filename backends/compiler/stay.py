"""What stays in PyTorch: one operator as a call, or a whole torch.nn module where a part of it stays."""

from __future__ import annotations

import inspect
import operator
from contextlib import suppress
from typing import Any

import torch

from backends import NothingToConvert
from backends.compiler import extern, whole
from backends.compiler.arguments import is_state
from backends.compiler.environment import Environment, traced
from backends.compiler.host import LENGTHS, state_text
from backends.compiler.ir import Extern, Value
from backends.compiler.nodes import leaf_call, mutated_argument, op_name, sizes, writes_in_place
from backends.compiler.ranges import Formula, counted
from backends.compiler.reasons import why
from backends.compiler.rules import bind, schema_name
from backends.compiler.sizetext import NoName
from backends.compiler.text import TYPES

SIZES = ("split_size", "length", "chunks")
"""Arguments that say how large or how many the pieces of a tensor are."""


def stay(env: Environment, node: torch.fx.Node, arguments: Any, keywords: Any, reason: str) -> Any:
    """Leave an operator to PyTorch and return its result, or a list of them."""
    text, operands = extern.call_text(node.target, _with_named_sizes(env, node, arguments), keywords, env.host)
    value = node.meta["val"]
    results = [value] if isinstance(value, torch.Tensor) else list(value) if value is not None else []
    label = op_name(node)
    first = next((r for r in results if isinstance(r, torch.Tensor)), None)
    if first is None:
        raise NothingToConvert("not_convertible", f"{label} returns no tensor", "", None)
    out = Value(label, sizes(first.shape), first.dtype)
    op = Extern(label, out, env.builder.origin, text, operands, reason or why(label))
    mutated = mutated_argument(node)
    op.is_counter = mutated is not None and _is_counter(env, node, mutated)
    op.is_work = extern.is_work(node.target) and not op.is_counter
    op.is_barrier = mutated is not None and not op.is_counter
    if op.is_counter:
        op.text = f"{{0}} += {arguments[1]}"
    out.op, out.dense = op, False
    if mutated is not None and isinstance(env.values.get(mutated), Value):
        out.aliases = env.values[mutated]
    elif not op.is_work and operands and not extern.allocates(node.target):
        out.aliases = operands[0]
    env.builder.ops.append(op)
    if isinstance(value, torch.Tensor):
        out.formula = _range(env, node, arguments, keywords, out)
        return out
    op.results = [_item(op, index, tensor) for index, tensor in enumerate(value)]
    return op.results


def _range(env: Environment, node: torch.fx.Node, arguments: Any, keywords: Any, out: Value) -> Formula | None:
    """Describe the elements of an arange of whole numbers that nothing writes to."""
    if not schema_name(node.target).startswith("arange.") or env.builder.program_writes_in_place:
        return None
    bound = bind(node.target, arguments, keywords)
    start, step = (bound.get(name, default) for name, default in (("start", 0), ("step", 1)))
    if any(isinstance(number, float) for number in (start, step)) or out.dtype not in TYPES:
        return None
    with suppress(NoName):
        first, stride = (env.builder.element(number, torch.int64) for number in (start, step))
        return counted(first, stride, out.dtype, env.builder.extent(out.shape[0]))
    return None


def _item(op: Extern, index: int, tensor: Any) -> Value | None:
    if not isinstance(tensor, torch.Tensor):
        return None
    item = Value(f"{op.label}_{index}", sizes(tensor.shape), tensor.dtype, dense=False)
    item.op, item.aliases = op, op.out.aliases
    return item


def _with_named_sizes(env: Environment, node: torch.fx.Node, arguments: Any) -> list[Any]:
    """Write a length by the name that the user's line gives it: it may be another one in another build."""

    def named(value: Any, name: str) -> Any:
        if name in LENGTHS and isinstance(value, (list, tuple)):
            return [env.host.length(part, env.builder.origin, name) for part in value]
        return env.host.scalar(value, env.builder.origin, name) if name in SIZES else value

    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    return [named(value, name) for name, value in zip(names, arguments, strict=False)]


def _is_counter(env: Environment, node: torch.fx.Node, counted: torch.fx.Node) -> bool:
    """Tell whether a node adds to a counter, such as the number of batches seen, that nothing here reads."""
    is_plain = node.target is torch.ops.aten.add_.Tensor and not node.kwargs and isinstance(node.args[1], int)
    tensor = counted.meta["val"]
    is_single = is_state(env, counted) and not tensor.dim() and not tensor.is_floating_point()
    only_counted = all(user.target is node.target and not user.users for user in counted.users)
    return bool(is_plain and is_single and only_counted)


def is_module_call(env: Environment, run: list[torch.fx.Node]) -> bool:
    """Tell whether nodes can be written as one call of a module: a tensor in, with a recurrent one's state, one out."""
    inside = set(run)
    left = [node for node in run if any(user not in inside for user in node.users)]
    is_plain = len(left) == 1 and isinstance(left[0].meta.get("val"), torch.Tensor) and _takes_one(env, run[0])
    return is_plain and bool(_call(env, run)[0]) and _part(env, left[0]) is not None


def _call(env: Environment, run: list[torch.fx.Node]) -> tuple[str, list[torch.fx.Node]]:
    """Write what a module is called with, {0} for the first tensor; "" where that is not known."""
    inside = set(run)
    given = list(
        dict.fromkeys(
            source
            for node in run
            for source in node.all_input_nodes
            if source not in inside and isinstance(source.meta.get("val"), torch.Tensor) and not is_state(env, source)
        )
    )
    if len(given) == 1:
        return "{0}", given
    for node in run:
        if op_name(node) in whole.RECURRENT:
            x, state = node.args[:2]
            states = list(state) if isinstance(state, (list, tuple)) else [state]
            shown = "{1}" if states == [state] else f"({', '.join(f'{{{at + 1}}}' for at in range(len(states)))})"
            return (f"{{0}}, {shown}", [x, *states]) if {x, *states} == set(given) else ("", [])  # type: ignore[list-item]
    return "", []


def _part(env: Environment, result: torch.fx.Node) -> str | None:
    """Write which part of what the module returns a result is; None where that is not known."""
    call = leaf_call(result)
    assert call is not None
    module = env.captured.module.get_submodule(call[0])
    if not (isinstance(module, (torch.nn.RNNBase, torch.nn.LSTMCell)) or getattr(module, "return_indices", False)):
        return ""  # a tensor
    if result.target is not operator.getitem:
        return None
    at = result.args[1]
    return f"[1][{at - 1}]" if isinstance(module, torch.nn.LSTM) and at else f"[{at}]"  # type: ignore[operator]


def _takes_one(env: Environment, node: torch.fx.Node) -> bool:
    """Tell whether a module's forward is content with one argument; one for attention wants q, k and v."""
    call = leaf_call(node)
    assert call is not None
    parameters = inspect.signature(env.captured.module.get_submodule(call[0]).forward).parameters.values()
    return sum(parameter.default is parameter.empty for parameter in parameters) == 1


def module_call(env: Environment, run: list[torch.fx.Node], reason: str) -> None:
    """Write the nodes of one module call as that call."""
    inside = set(run)
    result = next(node for node in run if any(user not in inside for user in node.users))
    shown, given = _call(env, run)
    call = leaf_call(run[0])
    assert call is not None
    working = (n for n in run if extern.is_work(n.target) and not writes_in_place(n.target))
    text = f"{state_text(call[0])}({shown}){_part(env, result)}"
    env.values[result] = left(env, result, op_name(next(working, result)), text, given, reason)


def left(
    env: Environment, result: torch.fx.Node, label: str, text: str, given: list[torch.fx.Node], reason: str
) -> Value:
    """Leave the call in `text` to PyTorch, {0}, {1}, ... being the tensors `given`; return what stands for `result`."""
    env.builder.origin = env.origin(result)
    out = traced(result, label)
    op = Extern(label, out, env.builder.origin, text, [env.values[node] for node in given], reason)
    out.op, out.dense = op, False
    env.builder.ops.append(op)
    return out
