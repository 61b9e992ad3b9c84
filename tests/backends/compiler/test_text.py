"""Expressions as text: read back by Python, the text means the tree."""

from __future__ import annotations

import ast
import operator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.compiler.expression import Call, Expr, Literal, Ref, binary, call, cast, where
from backends.compiler.ir import Value
from backends.compiler.text import Writer, literal

NAMES = ("a", "b", "c")
VALUES = {name: Value(name, (), torch.float32) for name in NAMES}
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
COMPARISON = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
LOGIC = {"&": operator.and_, "|": operator.or_, "^": operator.xor}
OPERATORS: dict[str, Any] = {**ARITHMETIC, **COMPARISON, **LOGIC}


def numbers() -> st.SearchStrategy[Expr]:
    """Trees of numbers, with choices by conditions inside."""
    leaf = st.sampled_from([Ref(torch.float32, VALUES[name]) for name in NAMES]) | st.floats(-4, 4, width=16).map(
        lambda number: Literal(torch.float32, number)
    )

    def larger(smaller: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        condition = st.builds(binary, st.sampled_from(list(COMPARISON)), smaller, smaller, st.just(torch.bool))
        conditions = condition | st.builds(binary, st.sampled_from(list(LOGIC)), condition, condition)
        conditions |= st.builds(lambda x: call("not", x), condition)
        conditions |= st.builds(binary, st.sampled_from(["==", "!="]), condition, condition, st.just(torch.bool))
        return (
            st.builds(binary, st.sampled_from(list(ARITHMETIC)), smaller, smaller)
            | st.builds(operator.neg, smaller)
            | st.builds(where, conditions, smaller, smaller)
        )

    return st.recursive(leaf, larger, max_leaves=12)


def value_of(x: Expr, known: dict[str, Any]) -> Any:
    """Evaluate a tree directly."""
    if isinstance(x, Ref):
        return known[x.value.name]
    if isinstance(x, Literal):
        return np.float32(x.number)
    assert isinstance(x, Call)
    arguments = [value_of(argument, known) for argument in x.arguments]
    if x.function == "where":
        return arguments[1] if arguments[0] else arguments[2]
    if x.function in ("neg", "not"):
        return (operator.neg if x.function == "neg" else operator.invert)(*arguments)
    return OPERATORS[x.function](*arguments)


class _Single(ast.NodeTransformer):
    """Read a text's numbers as float32, as a kernel does."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.parse(f"np.float32({node.value!r})", mode="eval").body


def _in_float32(text: str) -> str:
    return ast.unparse(_Single().visit(ast.parse(text, mode="eval")))


def text_of(x: Expr) -> str:
    return Writer({value: name for name, value in VALUES.items()}, {}, {}).write(x)


@settings(max_examples=300, deadline=None)
@given(numbers(), st.tuples(*[st.floats(-8, 8, width=16)] * 3))
def test_text_means_the_tree(tree: Expr, values: tuple[float, ...]) -> None:
    """The text evaluates to the tree's own bits: precedence, associativity and the order of rounding are kept."""
    known = {name: np.float32(value) for name, value in zip(NAMES, values, strict=True)}
    text = text_of(tree)
    triton = SimpleNamespace(where=lambda condition, then, otherwise: then if condition else otherwise)
    with np.errstate(all="ignore"):
        found = eval(_in_float32(text), {"tl": triton, "np": np, **known})
        wanted = value_of(tree, known)
    assert np.float32(found).tobytes() == np.float32(wanted).tobytes() or (np.isnan(found) and np.isnan(wanted)), text


A, B, C = (Ref(torch.float32, VALUES[name]) for name in NAMES)


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (A + B * C, "a + b * c"),
        ((A + B) * C, "(a + b) * c"),
        (A - (B - C), "a - (b - c)"),
        ((A - B) - C, "a - b - c"),
        (A + (B + C), "a + (b + c)"),
        (A / (B * C), "a / (b * c)"),
        (-(A + B), "-(a + b)"),
        ((A < B) & (B < C), "(a < b) & (b < c)"),
        (call("not", A < B), "~(a < b)"),
        (cast(A + B, torch.float16), "(a + b).to(tl.float16)"),
        (where(A > 0, A, 0.1 * A), "tl.where(a > 0.0, a, 0.1 * a)"),
        (call("maximum", A, B), "tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)"),
    ],
)
def test_no_more_brackets_than_python_needs(tree: Expr, text: str) -> None:
    """Brackets stand where the meaning needs them, and nowhere else."""
    assert text_of(tree) == text


@pytest.mark.parametrize(
    ("number", "dtype", "text"),
    [
        (float("inf"), torch.float32, 'float("inf")'),
        (float("-inf"), torch.float16, 'float("-inf")'),
        (2, torch.float32, "2.0"),
        (2.0, torch.int64, "2"),
        (1, torch.bool, "True"),
    ],
)
def test_a_number_is_written_in_the_kind_of_its_dtype(number: float, dtype: torch.dtype, text: str) -> None:
    """A float stays a float and an infinity is spelled so that Triton reads it."""
    assert literal(number, dtype) == text
