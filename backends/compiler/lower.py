"""An exported graph → the compiler's program: each node by its rule, or left to PyTorch with the reason."""

from __future__ import annotations

import operator
from contextlib import suppress
from itertools import groupby
from typing import Any

import torch
from torch.utils import _pytree as pytree

from backends import NothingToConvert
from backends.compiler.arguments import guards, read_arguments
from backends.compiler.bias import added_apart
from backends.compiler.build import Builder
from backends.compiler.capture import Captured
from backends.compiler.compose import compose
from backends.compiler.decompose import named_as_one, taken_apart
from backends.compiler.environment import Environment, traced
from backends.compiler.expression import Scalar
from backends.compiler.host import LENGTHS, Host, state_text
from backends.compiler.ir import Extern, Op, Pieces, Program, Value, live
from backends.compiler.nodes import leaf_call, mutated_argument, op_name, products, rounds, sizes, writes_in_place
from backends.compiler.recognise import recognised
from backends.compiler.returned import structure
from backends.compiler.rules import RULES, Declined, apply, bind, load_all, schema_name
from backends.compiler.schedule import Schedule
from backends.compiler.sizetext import NoName
from backends.compiler.statements import statements
from backends.compiler.stay import is_module_call, module_call, stay
from backends.compiler.text import TYPES

STRUCTURE = {"axis0", "axis1", "keepdim", "diagonal", "reduction", "correction", "ord", "p"}
"""Arguments that decide the kernel's shape: the file is written for their value and refuses another."""


LISTED = {"pad", "kernel_size", "stride", "padding", "dilation", "output_size", "repeats", "shifts", "split_sizes"}
"""Arguments that are lists of numbers written into the kernel, where the user's own line calls the operator."""


def lower(captured: Captured, source: str, schedule: Schedule) -> Program:
    """Translate a captured forward; raise NothingToConvert where the file could not be written truly."""
    load_all()
    nodes = [node for node in captured.program.graph.nodes if node.op == "call_function"]
    host = Host(captured.module, captured.input_texts, dict(captured.constants))
    builder = Builder(host, any(writes_in_place(node.target) for node in nodes), schedule)
    env = Environment(captured, host, builder, statements(source), schedule, products(nodes))
    read_arguments(env)
    for run in _module_runs(nodes):
        _lower_run(env, run)
    outputs = _outputs(env)
    text = structure(len(outputs), captured.program.call_spec.out_spec)
    program = Program(
        builder.ops,
        env.inputs,
        outputs,
        text,
        guards(env),
        lengths=_lengths(env),
        size_text=host.size,
        unset=captured.unset,
    )
    program.pieces = _counted(builder.pieces, live(program.ops, program.kept))
    compose(program.ops, program.kept)
    return program


def _lengths(env: Environment) -> dict[str, int]:
    """Count the layers of the module's lists."""
    modules = env.captured.module.named_modules()
    lists = (torch.nn.Sequential, torch.nn.ModuleList)  # not what is derived from them: it may not be sliced
    return {state_text(path): len(module) for path, module in modules if type(module) in lists}


def _counted(pieces: list[Pieces], ops: list[Op]) -> list[Pieces]:
    """Keep, once each, the counts of tensors that these operations read."""
    read = {value for op in ops for value in op.inputs}
    return [found for found in dict.fromkeys(pieces) if found.of in read]


def _module_runs(nodes: list[torch.fx.Node]) -> list[list[torch.fx.Node]]:
    """Keep the nodes of one call of a torch.nn module together, so that it can stay one call in the text."""
    calls = ((call, list(run)) for call, run in groupby(nodes, leaf_call))
    return [part for call, run in calls for part in ([run] if call else [[node] for node in run])]


def _lower_run(env: Environment, run: list[torch.fx.Node]) -> None:
    mark, before, guarded = len(env.builder.ops), dict(env.values), dict(env.builder.guards)
    counted = len(env.builder.pieces)
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
    del env.builder.pieces[counted:]
    if not added_apart(env, run, reason):
        module_call(env, run, reason)


def _lower(env: Environment, node: torch.fx.Node) -> bool:
    """Lower one node; False if it stays in PyTorch."""
    value = node.meta.get("val")
    if node.target is operator.getitem:
        container, index = node.args
        if env.values[container] is None:  # type: ignore[index]
            raise NothingToConvert("not_convertible", "an operator returns a list within a tuple")
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
        if _by_parts(env, node):
            return True
        env.builder.origin = env.origin(node)
        env.values[node] = stay(env, node, arguments, keywords, str(reason))
        return False


def _by_parts(env: Environment, node: torch.fx.Node) -> bool:
    """Lower an operator without a rule as what PyTorch says it consists of, if all of that can be."""
    if schema_name(node.target) in RULES:
        return False
    parts = taken_apart(node)
    for equality in parts.ties:
        env.builder.tie(equality)
    if parts.graph is None:
        return False
    mark, guarded, counted = len(env.builder.ops), dict(env.builder.guards), len(env.builder.pieces)
    outer = iter(parts.given)
    try:
        for inner in parts.graph.nodes:
            if inner.op == "placeholder":
                env.values[inner] = env.resolve(next(outer))
            elif inner.op == "output":
                result = torch.fx.node.map_aggregate(inner.args[0], env.resolve)
            elif inner.op != "call_function" or (not _lower(env, inner) and _is_left(env.values[inner])):
                raise Declined("")
        _check_result(node, result)
        for condition in parts.conditions:
            env.builder.require(condition)
    except (Declined, NoName, NothingToConvert):
        del env.builder.ops[mark:], env.builder.pieces[counted:]
        env.builder.guards = guarded
        return False
    env.values[node] = result
    named_as_one(env.builder.ops[mark:], op_name(node))
    return True


def _is_left(value: Any) -> bool:
    """Tell whether PyTorch would do work for a value."""
    first = next(iter(value), None) if isinstance(value, (list, tuple)) else value
    return first is None or (isinstance(first.op, Extern) and first.op.is_work)


def _by_rule(env: Environment, node: torch.fx.Node, arguments: Any, keywords: Any) -> Any:
    if (found := recognised(env, node)) is not None:
        _check_result(node, found)
        return found
    rule = RULES.get(schema_name(node.target))
    if rule is None:
        raise Declined("")
    if rule.__module__.rpartition(".")[2] in env.schedule.library:
        raise Declined(env.schedule.reason)
    _check_dtypes((arguments, keywords))
    mutated = mutated_argument(node)
    if mutated is not None and env.is_visible(env.values[mutated]):
        raise Declined("writes in place to what is visible elsewhere")
    env.builder.results = _results(node)
    env.builder.result = env.builder.results[0]
    env.builder.rounds = rounds(node, env.products)
    _check_dtypes(env.builder.results)
    bound = {key: _named(env, value, key) for key, value in bind(node.target, arguments, keywords).items()}
    env.builder.assigned.clear()
    result = apply(rule, env.builder, bound)
    _check_result(node, result)
    for other, known in list(env.values.items()) if env.builder.assigned else ():
        if isinstance(known, Value) and known in env.builder.assigned:
            env.values[other] = env.builder.assigned[known]
    if mutated is not None:
        for other, known in list(env.values.items()):
            if other is mutated or known is arguments[0]:
                env.values[other] = result
    return result


def _results(node: torch.fx.Node) -> list[Value]:
    """Describe the tensors that an operator returns in PyTorch."""
    value = node.meta["val"]
    if isinstance(value, torch.Tensor):
        return [traced(node, "")]
    return [Value("", sizes(v.shape), v.dtype) for v in value if isinstance(v, torch.Tensor)]


def _named(env: Environment, value: Any, argument: str) -> Any:
    if isinstance(value, (list, tuple)) and argument in LENGTHS:
        return [env.host.length(part, env.builder.origin, argument) for part in value]
    if isinstance(value, (list, tuple)) and argument in LISTED and not env.builder.origin.module:
        return [_held(env, part, argument) for part in value]
    named = env.host.scalar(value, env.builder.origin, argument)
    is_structure = "dim" in argument or argument in STRUCTURE
    return env.builder.pin(named) if is_structure and isinstance(named, Scalar) else named


def _held(env: Environment, part: Any, argument: str) -> Any:
    """Keep a number of a list; the file refuses another value of the attribute that it is, if it is one."""
    named = env.host.scalar(part, env.builder.origin, argument) if type(part) in (int, float) else part
    return env.builder.pin(named) if isinstance(named, Scalar) and named is not part else part


def _check_dtypes(given: Any) -> None:
    for leaf in pytree.tree_leaves(given):
        if isinstance(leaf, Value) and leaf.dtype not in TYPES:
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
            return env.host.sized(value)
        except NoName as unknown:
            raise NothingToConvert(
                "not_convertible", f"a size depends on the values of the inputs ({unknown})"
            ) from unknown
    if isinstance(value, torch.SymFloat) and value.node.hint is not None:
        with suppress(NoName, AssertionError):  # the printer knows no roots
            return Scalar(torch.float64, env.host.condition(value.node.expr), float(value.node.hint))
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
