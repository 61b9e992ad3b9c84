"""Blocks that repeat are functions, lists of them are loops, and what is run stays what it was, to the statement."""

from __future__ import annotations

import ast
import re

import pytest

from tests.backends.compiler.examples import MORE
from tests.backends.compiler.towers import NESTED, RESIDUAL, TOWER, network
from tests.backends.compiler.unrolled import both
from tests.backends.compiler.written import kernels, source, triton


def function(text: str, name: str, owner: str = "") -> str:
    """Return a function of a file, or a method of ModelNew, one line a statement and without docstring."""
    tree: ast.AST = ast.parse(text)
    if owner:
        tree = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == owner)
    found = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)
    found.body = [part for part in found.body if not isinstance(getattr(part, "value", None), ast.Constant)]
    return ast.unparse(found)


def forward(text: str) -> list[str]:
    """Return the statements of ModelNew.forward."""
    return [row.removeprefix("    ") for row in function(text, "forward", "ModelNew").splitlines()[1:]]


def test_a_list_of_equal_blocks_is_one_function_and_one_loop() -> None:
    """The one that differs is a function named after what it has more; names are the user's own."""
    found = both(TOWER)
    assert forward(found.text) == [
        "x = residual_with_skip(self.layers[0], x)",
        "for layer in self.layers[1:]:",
        "    x = residual(layer, x)",
        "return linear(x, self.head.weight, self.head.bias)",
    ]
    assert function(found.text, "residual").splitlines()[1:3] == [
        "    out = layer_norm(features, block.norm.weight, block.norm.bias, block.norm.eps)",
        "    out = linear_gelu(out, block.up.weight, block.up.bias)",
    ]
    assert found.runs == found.flat and len(found.flat) == 6 * 3 + 3


def test_a_block_whose_end_is_one_kernel_with_what_comes_behind_it_is_begun() -> None:
    """Kernels are formed first: the last block's sum is doubled where it is made."""
    found = both(NESTED)
    assert forward(found.text)[:5] == [
        "for stage in self.stages[0]:",
        "    x = residual(stage, x)",
        "add = residual(self.stages[1][0], x)",
        "add = residual(self.stages[1][1], add)",
        "out = begin_residual(self.stages[1][2], add)",
    ]
    assert found.runs == found.flat


@pytest.mark.parametrize("problem", [TOWER, NESTED])
def test_the_constructor_stays_the_users(problem: str) -> None:
    """Functions are called with the user's submodules: no name in state_dict changes."""
    text = triton(problem)
    kept = function(problem, "__init__", "Model")
    assert function(text, "__init__", "ModelNew") == kept


def test_names_of_forward_s_own_are_not_written_over() -> None:
    """A loop and a function find other names where the user's arguments are called layer, block and i."""
    text = network(
        RESIDUAL,
        "self.layers = nn.ModuleList([Residual(8) for _ in range(4)])",
        "y = layer\nfor each in self.layers:\n    y = each(y) * block\nreturn y + i + layer",
        (4, 8),
        (4, 8),
        (4, 8),
        arguments="layer, block, i",
    )
    found = both(text)
    assert found.runs == found.flat
    assert not re.search(r"for (layer|block|i) in self", found.text)


def test_results_that_are_needed_of_every_round_are_collected() -> None:
    """A loop that the user stacks the results of keeps them in a list."""
    forward_text = "outs = []\nfor layer in self.layers:\n    x = layer(x)\n    outs.append(x)\nreturn x, tuple(outs)"
    init = "self.layers = nn.ModuleList([Residual(8) for _ in range(5)])"
    found = both(network(RESIDUAL, init, forward_text, (4, 8)))
    assert forward(found.text) == [
        "xs = []",
        "for layer in self.layers:",
        "    x = residual(layer, x)",
        "    xs.append(x)",
        "return (x, tuple(xs))",
    ]
    assert found.runs == found.flat


def test_a_loop_over_time_stays_one() -> None:
    """Each step takes its part of the sequence by a view: its kernel would else know the step, and be another one."""
    found = both(MORE["a step at a time"].text)
    assert forward(found.text)[2:8] == [
        "biaseds = []",
        "for i in range(20):",
        "    y = cat(x0[i], x1)",
        "    x1 = linear_tanh(y, self.fc.weight, self.fc.bias)",
        "    biased = linear(x1, self.out.weight, self.out.bias)",
        "    biaseds.append(biased)",
    ]
    assert found.runs == found.flat and len(found.flat) > 60


def test_samples_may_come_first() -> None:
    """A step is then every sample's."""
    found = both(MORE["a step at a time, samples first"].text)
    assert forward(found.text)[:2] == ["for i in range(20):", "    y = cat(x0[:, i], x1)"]
    assert found.runs == found.flat


def test_steps_without_a_product_are_one_kernel() -> None:
    """Nothing goes through memory between them."""
    text = triton(source("for t in range(20):\n    x1 = x1 * 0.5 + x0[t]\nreturn x1", (20, 3, 4), (3, 4)))
    assert len(kernels(text)) == 1


def test_a_dense_block_is_a_loop() -> None:
    """What is joined to all before is joined to what they were joined into: two tensors, however deep it is."""
    found = both(MORE["joined more and more"].text)
    assert forward(found.text)[1:4] == [
        "for layer in self.layers[:5]:",
        "    y = conv1d(relu, layer.weight, layer.bias, layer.stride, layer.padding, layer.dilation)",
        "    x0, relu = cat_relu_2(x0, y)",
    ]
    assert found.runs == found.flat


def test_what_is_written_to_is_joined_anew() -> None:
    """A join that has changed since is no longer that of its parts."""
    text = triton(
        source("y = torch.cat([x0, x1], 1)\ny[:, 0] = 0.5\nreturn torch.cat([x0, x1, x2], 1), y", *[(3, 4)] * 3)
    )
    assert "cat_2(x0, x1, x2)" in text


def test_numbers_that_count_along_keep_their_brackets() -> None:
    """x * 3, x * 4, ... is x * (i + 3) where i is needed as it is too."""
    rows = [f"x0 = torch.ops.aten.renorm(self.w[{i}] + x0, 2, 0, {i + 3}.0)" for i in range(6)]
    found = both(
        source(
            "\n".join([*rows, "return x0 * 2.0"]),
            (4, 4),
            init=("self.w = nn.ParameterList([nn.Parameter(torch.ones(4, 4)) for _ in range(6)])"),
        )
    )
    assert found.runs == found.flat


def test_blocks_of_other_sizes_share_a_function() -> None:
    """Kernels take any size, and so do functions of them."""
    init = """
        self.wide = nn.ModuleList([Residual(16) for _ in range(2)])
        self.slim = nn.ModuleList([Residual(8) for _ in range(3)])
    """
    forward_text = """
        for layer in self.wide:
            x = layer(x)
        x = torch.special.bessel_j0(x[:, ::2])
        for layer in self.slim:
            x = layer(x)
        return x
    """
    found = both(network(RESIDUAL, init, forward_text, (4, 16)))
    assert found.runs == found.flat and found.text.count("def residual") == 1


def test_a_block_that_reads_another_module_s_parameters_stays_where_it_is() -> None:
    """A function has one module only."""
    text = network(
        """
        class Tied(nn.Module):
            def __init__(self, other):
                super().__init__()
                self.own = nn.Linear(8, 8)
                self.held = [other]

            def forward(self, x):
                return F.relu(F.linear(torch.tanh(self.own(x)), self.held[0].weight) + 1.0) * x
        """,
        "self.shared = nn.Linear(8, 8)\nself.layers = nn.ModuleList([Tied(self.shared) for _ in range(3)])",
        "for layer in self.layers:\n    x = layer(x)\nreturn x",
        (4, 8),
    )
    found = both(text)
    assert found.runs == found.flat and "def tied(" not in found.text


def test_unlike_statements_are_seen() -> None:
    """The comparison itself: two networks that differ in one number, or in which tensor is read, run differently."""
    one = source("y = torch.special.bessel_j0(x0)\nreturn y * 2.0 + x0, y * x1", (4, 8), (4, 8))
    runs = both(one).runs
    assert runs == both(one).flat
    assert runs != both(one.replace("y * x1", "x0 * x1")).runs
    assert runs != both(one.replace("torch.special.bessel_j0(x0)", "torch.special.bessel_j0(x1)")).runs
