"""An exported graph → the compiler's program: each node by its rule, or left to PyTorch with the reason."""

from __future__ import annotations

import operator
from itertools import groupby
from typing import Any

import torch
from torch.utils import _pytree as pytree

from backends import NothingToConvert
from backends.compiler.arguments import guards, read_arguments
from backends.compiler.build import Builder
from backends.compiler.capture import Captured
from backends.compiler.environment import Environment, traced
from backends.compiler.expression import Scalar
from backends.compiler.host import Host, NoName
from backends.compiler.ir import Extern, Program, Value
from backends.compiler.nodes import leaf_call, mutated_argument, sizes, writes_in_place
from backends.compiler.returned import structure
from backends.compiler.rules import RULES, Declined, apply, bind, load_all, schema_name
from backends.compiler.statements import statements
from backends.compiler.stay import is_module_call, module_call, stay

STRUCTURE = {"axis0", "axis1", "keepdim", "diagonal", "reduction", "correction", "ord", "p", "groups"}
"""Arguments that decide the kernel's shape: the file is written for their value and refuses another."""


def lower(captured: Captured, source: str) -> Program:
    """Translate a captured forward; raise NothingToConvert where the file could not be written truly."""
    load_all()
    nodes = [node for node in captured.program.graph.nodes if node.op == "call_function"]
    host = Host(captured.module, captured.input_texts, dict(captured.constants))
    builder = Builder(host, any(writes_in_place(node.target) for node in nodes))
    env = Environment(captured, host, builder, statements(source))
    read_arguments(env)
    for run in _module_runs(nodes):
        _lower_run(env, run)
    outputs = _outputs(env)
    text = structure(len(outputs), captured.program.call_spec.out_spec)
    return Program(builder.ops, env.inputs, outputs, text, guards(env))


def _module_runs(nodes: list[torch.fx.Node]) -> list[list[torch.fx.Node]]:
    """Keep the nodes of one call of a torch.nn module together, so that it can stay one call in the text."""
    calls = ((call, list(run)) for call, run in groupby(nodes, leaf_call))
    return [part for call, run in calls for part in ([run] if call else [[node] for node in run])]


def _lower_run(env: Environment, run: list[torch.fx.Node]) -> None:
    mark, before, guarded = len(env.builder.ops), dict(env.values), dict(env.builder.guards)
    stayed = [node for node in run if not _lower(env, node)]
    if not stayed or not leaf_call(run[0]) or not is_module_call(env, run):
        return
    # a module that PyTorch runs in part runs there whole, as the user wrote it
    reason = next((op.reason for op in env.builder.ops[mark:] if isinstance(op, Extern) and op.is_work), "")
    if not reason:
        return
    del env.builder.ops[mark:]
    env.values.clear()
    env.values.update(before)
    env.builder.guards = guarded
    module_call(env, run, reason)


def _lower(env: Environment, node: torch.fx.Node) -> bool:
    """Lower one node; False if it stays in PyTorch."""
    value = node.meta.get("val")
    if node.target is operator.getitem:
        container, index = node.args
        env.values[node] = env.values[container][index]  # type: ignore[index]
        return True
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)):
        env.values[node] = _number(env, value)
        return True
    if value is None and not node.users:
        return True  # an assertion of the exporter
    env.builder.origin = env.origin(node)
    arguments = torch.fx.node.map_aggregate(node.args, env.resolve)
    keywords = torch.fx.node.map_aggregate(node.kwargs, env.resolve)
    mark = len(env.builder.ops)
    try:
        env.values[node] = _by_rule(env, node, arguments, keywords)
        return True
    except (Declined, NoName) as reason:
        del env.builder.ops[mark:]
        env.values[node] = stay(env, node, arguments, keywords, str(reason))
        return False


def _by_rule(env: Environment, node: torch.fx.Node, arguments: Any, keywords: Any) -> Any:
    rule = RULES.get(schema_name(node.target))
    if rule is None:
        raise Declined("")
    _check_dtypes((arguments, keywords))
    mutated = mutated_argument(node)
    if mutated is not None and env.is_visible(env.values[mutated]):
        raise Declined("writes in place to what is visible elsewhere")
    env.builder.result = _first_result(node)
    bound = {key: _named(env, value, key) for key, value in bind(node.target, arguments, keywords).items()}
    result = apply(rule, env.builder, bound)
    _check_result(node, result)
    if mutated is not None:
        for other, known in list(env.values.items()):
            if other is mutated or known is arguments[0]:
                env.values[other] = result
    return result


def _first_result(node: torch.fx.Node) -> Value:
    """Describe what an operator returns in PyTorch, the first tensor where it returns several."""
    value = node.meta["val"]
    if isinstance(value, torch.Tensor):
        return traced(node, "")
    first = next(v for v in value if isinstance(v, torch.Tensor))
    return Value("", sizes(first.shape), first.dtype)


def _named(env: Environment, value: Any, argument: str) -> Any:
    named = env.host.scalar(value, env.builder.origin, argument)
    is_structure = "dim" in argument or argument in STRUCTURE
    return env.builder.pin(named) if is_structure and isinstance(named, Scalar) else named


def _check_dtypes(given: Any) -> None:
    for leaf in pytree.tree_leaves(given):
        if isinstance(leaf, Value) and (leaf.dtype.is_complex or leaf.dtype.itemsize == 0):
            raise Declined(f"{leaf.dtype} is not supported")


def _check_result(node: torch.fx.Node, result: Any) -> None:
    """A rule that got a shape or dtype wrong must not reach a kernel."""
    known = node.meta["val"]
    pairs = [(result, known)] if isinstance(known, torch.Tensor) else zip(result, known, strict=True)
    for value, tensor in pairs:
        if value.hints != tuple(size.hint for size in sizes(tensor.shape)) or value.dtype != tensor.dtype:
            raise Declined("not supported for these shapes and dtypes")


def _number(env: Environment, value: Any) -> Any:
    if isinstance(value, torch.SymInt):
        try:
            return Scalar(torch.int64, env.host.size(value), value.node.hint or 1)
        except NoName as unknown:
            raise NothingToConvert(
                "not_convertible", f"a size depends on the values of the inputs ({unknown})"
            ) from unknown
    if isinstance(value, (torch.SymFloat, torch.SymBool)):
        raise NothingToConvert("not_convertible", "a number depends on the sizes in a way that cannot be written")
    return value


def _outputs(env: Environment) -> list[Any]:
    program = env.captured.program
    node = next(node for node in program.graph.nodes if node.op == "output")
    for spec in program.graph_signature.output_specs:
        if spec.kind.name != "USER_OUTPUT":
            raise NothingToConvert("not_convertible", "forward changes a buffer in a way that cannot be written")
    return [env.resolve(argument) for argument in node.args[0]]
