"""What `forward` is given: its arguments, the module's state, constants, and the guards on plain values."""

from __future__ import annotations

from typing import Any

import torch

from backends import NothingToConvert
from backends.compiler import extern
from backends.compiler.build import TRAINING_ONLY
from backends.compiler.environment import Environment
from backends.compiler.expression import Scalar
from backends.compiler.host import state_text
from backends.compiler.ir import Value
from backends.compiler.nodes import sizes
from backends.compiler.rules import schema_name

NORMALIZATIONS = ("batch_norm.default", "instance_norm.default")
"""Operators that may write to a module's statistics, where nothing else reads them."""
WRITTEN_OUT = 64
"""Elements up to which a tensor that forward makes from numbers is written out."""


def read_arguments(env: Environment) -> None:
    """Give every placeholder of the graph its value."""
    signature = env.captured.program.graph_signature
    state = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    lifted = signature.inputs_to_lifted_tensor_constants
    texts = iter(env.captured.input_texts)
    for node in env.captured.program.graph.nodes:
        if node.op != "placeholder":
            continue
        if node.name in state:
            env.values[node] = _state(node, state_text(state[node.name]))
            if node.users and all(schema_name(user.target) in NORMALIZATIONS for user in node.users):
                env.builder.writable.add(env.values[node])
        elif node.name in lifted:
            env.values[node] = _constant(env, node, lifted[node.name])
        else:
            env.values[node] = _argument(env, node, next(texts))


def is_state(env: Environment, node: torch.fx.Node) -> bool:
    """Tell whether a node is a parameter, a buffer or a constant."""
    value = env.values.get(node)
    return node.op == "placeholder" and isinstance(value, Value) and value not in env.inputs


def _state(node: torch.fx.Node, text: str) -> Value:
    tensor = node.meta["val"]
    return Value(node.name, sizes(tensor.shape), tensor.dtype, host=text, dense=tensor.is_contiguous())


def _constant(env: Environment, node: torch.fx.Node, name: str) -> Value:
    """A tensor that is neither parameter nor buffer: an attribute's, or one that forward makes from numbers."""
    wanted = env.captured.program.constants[name]
    for path, module in env.captured.module.named_modules():
        for key, value in vars(module).items():
            if value is wanted:
                return _state(node, f"{state_text(path)}.{key}")
    if not isinstance(wanted, torch.Tensor) or wanted.is_complex() or wanted.numel() > WRITTEN_OUT:
        raise NothingToConvert(
            "not_convertible",
            f"forward makes the constant tensor {name} itself",
            "Make it once in __init__ and register it with register_buffer.",
        )
    made = _state(node, extern.constant_text(wanted, env.host))
    if not wanted.dim() and not env.builder.program_writes_in_place:
        env.builder.literals[made] = extern.shortest(wanted)
    return made


def _argument(env: Environment, node: torch.fx.Node, text: str) -> Any:
    tensor = node.meta.get("val")
    if not isinstance(tensor, torch.Tensor):
        constant = env.captured.constants.get(text)
        if isinstance(constant, (int, float)) and not isinstance(constant, bool):
            return Scalar(torch.float64 if isinstance(constant, float) else torch.int64, text, constant)
        return constant
    env.host.learn_shape(text, tensor.shape)
    value = Value(node.name, sizes(tensor.shape), tensor.dtype, host=text, dense=False)
    env.inputs.append(value)
    return value


def guards(env: Environment) -> list[str]:
    """Write the statements that refuse, at run time, what the text was not written for."""
    by_name = {scalar.host for op in env.builder.ops for scalar in op.scalars}
    found = {}
    for text, constant in env.captured.constants.items():
        is_number = isinstance(constant, (int, float)) and not isinstance(constant, bool)
        if constant is None:
            found[f"{text} is not None"] = f"written for {text}=None"
        elif not is_number or text not in by_name:
            found[f"{text} != {constant!r}"] = f"written for {text}={constant!r}"
    pinned = {f"{text} != {v!r}": f"written for {text} = {v!r}" for text, v in env.host.pins.items()}
    pinned |= {condition: f"written for {held}" for condition, held in env.captured.decided.items()}
    return list(
        dict.fromkeys(
            f"if {condition}:\n    raise ValueError({_quoted(message)})"
            for condition, message in {**found, **pinned, **_together(env), **env.builder.ties}.items()
        )
    )


def _together(env: Environment) -> dict[str, str]:
    """Ask once for training mode where many layers do."""
    each = env.builder.guards
    modes = [condition for condition, message in each.items() if message == TRAINING_ONLY]
    if len(modes) < 3 or not all(module.training for module in env.captured.module.modules()):
        return each
    others = {condition: message for condition, message in each.items() if condition not in modes}
    return {"not all(module.training for module in self.modules())": TRAINING_ONLY, **others}


def _quoted(message: str) -> str:
    """Write a message in double quotes, and one that holds such quotes in single ones."""
    return repr(message) if '"' in message or "\\" in message else f'"{message}"'
