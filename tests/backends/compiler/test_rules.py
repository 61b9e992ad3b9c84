"""The table of rules: each is bound to an operator that exists, by that operator's own argument names."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

from backends.compiler.rules import Declined, apply, bind, load_all, schema_name

RULES = load_all()


def operator(name: str) -> Any:
    packet, overload = name.rsplit(".", 1)
    return getattr(getattr(torch.ops.aten, packet, None), overload, None)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_takes_arguments_of_its_operator_s_schema(name: str) -> None:
    """The operator exists, and what the rule must be given is in its schema: a misspelt name would never be bound."""
    target = operator(name)
    assert target is not None and schema_name(target) == name
    given = {argument.name for argument in target._schema.arguments}
    needed = [
        parameter.name
        for parameter in list(inspect.signature(RULES[name]).parameters.values())[1:]
        if parameter.default is inspect.Parameter.empty
    ]
    assert set(needed) <= given


def test_an_argument_a_rule_does_not_know_makes_it_decline() -> None:
    """What is ignored would be a silent wrong answer."""

    def relu(builder: None, self: int) -> int:
        return self

    bound = bind(torch.ops.aten.softplus.default, (1,), {"threshold": 3})
    assert bound == {"self": 1, "beta": 1, "threshold": 3}
    with pytest.raises(Declined, match="threshold"):
        apply(relu, None, bound)
    assert apply(relu, None, {"self": 1, "out": None}) == 1
