"""Rules: one function an ATen operator, bound to the operator's whole schema.

A rule says what the operator means, or declines (an argument it does not know); a declined operator
stays in PyTorch and the file says so. A rule never ignores an argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import torch

Rule = Callable[..., Any]
AnyRule = TypeVar("AnyRule", bound=Rule)
RULES: dict[str, Rule] = {}


class Declined(Exception):
    """This operator, as called here, stays in PyTorch; the text says why."""


def rule(*names: str) -> Callable[[AnyRule], AnyRule]:
    """Register a rule for "gelu.default"-like names; its parameters must be the schema's own, after the builder."""

    def register(function: AnyRule) -> AnyRule:
        for name in names:
            RULES[name] = function
        return function

    return register


def schema_name(target: Any) -> str:
    """Return "gelu.default" for torch.ops.aten.gelu.default, or "" for what is no ATen operator."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return ""
    return f"{target._schema.name.removeprefix('aten::')}.{target._overloadname}"


def bind(target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
    """Give every argument of the operator's schema its value, defaults included."""
    bound = {}
    for index, argument in enumerate(target._schema.arguments):
        if index < len(arguments):
            bound[argument.name] = arguments[index]
        elif argument.name in keywords:
            bound[argument.name] = keywords[argument.name]
        else:
            bound[argument.name] = argument.default_value
    return bound


def apply(function: Rule, builder: Any, bound: dict[str, Any]) -> Any:
    """Call a rule with the bound arguments; what it has no parameter for must be at the schema's default None."""
    known = inspect.signature(function).parameters
    extra = {name: value for name, value in bound.items() if name not in known}
    if any(value is not None and value is not False for value in extra.values()):
        raise Declined(f"called with {', '.join(extra)}")
    return function(builder, **{name: value for name, value in bound.items() if name in known})


def load_all() -> dict[str, Rule]:
    """Import every family of rules and return the table."""
    from backends.compiler.rules import (  # noqa: F401
        activation,
        adaptive,
        arithmetic,
        attention,
        bound,
        cast,
        classes,
        constant,
        convolution,
        distance,
        einsum,
        function,
        gate,
        gather,
        logic,
        loss,
        matmul,
        movement,
        normalization,
        order,
        padding,
        part,
        pool,
        power,
        reduction,
        resample,
        scan,
        scatter,
        softmax,
        view,
    )

    return RULES
