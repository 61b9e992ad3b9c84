"""A problem is loaded, constructed and called the same way in every process, in every form people write it."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.verifier.references import HEAD
from verifier import cases
from verifier.cases import Case
from verifier.errors import VerificationError
from verifier.tree import flatten

MODEL = """
class Model(nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()
        self.args, self.kwargs = args, kwargs
    def forward(self, x):
        return x
"""


def module(tmp_path: Path, text: str) -> types.ModuleType:
    """Load a text as a problem."""
    return cases.load(HEAD + MODEL + text, tmp_path / "pasted_test.py")


@pytest.mark.parametrize(
    ("returned", "args", "kwargs"),
    [
        ("[3, 4]", (3, 4), {}),
        ("(3, 4)", (3, 4), {}),
        ("{'k': 3}", (), {"k": 3}),
        ("[[3, 4], {'k': 5}]", (3, 4), {"k": 5}),
        ("[[], {}]", (), {}),
        ("()", (), {}),
        ("None", (), {}),
        ("(n for n in (1, 2))", (1, 2), {}),
        ("[[3, 4]]", ([3, 4],), {}),
        ("[7, {'a': 1}]", (7, {"a": 1}), {}),
        ("5", (5,), {}),
    ],
)
def test_constructor_arguments_in_every_form(tmp_path: Path, returned: str, args: Any, kwargs: Any) -> None:
    """Lists, tuples, dicts, KernelBook's pair, generators, single values and nothing."""
    loaded = module(tmp_path, f"def get_init_inputs():\n    return {returned}\n")
    model = cases.construct(loaded, "Model", 1)
    assert (model.args, model.kwargs) == (args, kwargs)


def test_without_get_init_inputs_nothing_is_passed(tmp_path: Path) -> None:
    """The function may be missing."""
    assert cases.init_arguments(module(tmp_path, "")) == ([], {})


@pytest.mark.parametrize(
    ("body", "count", "names"),
    [
        ("return [torch.rand(2), torch.rand(3)]", 2, []),
        ("return torch.rand(2)", 1, []),
        ("return {'x': torch.rand(2)}", 0, ["x"]),
        ("yield torch.rand(2)\n    yield None", 2, []),
        ("return ([torch.rand(2)], {'mask': torch.ones(2)})", 2, []),
    ],
)
def test_inputs_in_every_form(tmp_path: Path, body: str, count: int, names: list[str]) -> None:
    """A dict is keyword arguments; a list and a dict are two arguments."""
    args, kwargs = cases.build_inputs(module(tmp_path, f"def get_inputs():\n    {body}\n"), Case(1))
    assert len(args) == count and list(kwargs) == names


def test_the_same_seed_gives_the_same_inputs_and_another_does_not(tmp_path: Path) -> None:
    """torch, random and numpy are all seeded."""
    loaded = module(
        tmp_path,
        "import random\nimport numpy as np\ndef get_inputs():\n"
        "    return [torch.rand(3), torch.tensor([random.random(), np.random.rand()])]\n",
    )
    one, two, three = (flatten(cases.build_inputs(loaded, Case(seed))).tensors for seed in (4, 4, 5))
    assert all(map(torch.equal, one, two)) and not any(map(torch.equal, one, three))


def test_inputs_made_at_import_are_never_shared_between_two_calls(tmp_path: Path) -> None:
    """Writing into one call's inputs must not change the next call's."""
    loaded = module(tmp_path, "FIXED = torch.ones(3)\ndef get_inputs():\n    return [FIXED]\n")
    cases.build_inputs(loaded, Case(1))[0][0].zero_()
    assert float(cases.build_inputs(loaded, Case(1))[0][0].sum()) == 3


def test_copies_keep_strides_and_what_shares_memory() -> None:
    """Expanded, transposed and aliasing inputs are traps that must survive."""
    base = torch.rand(4, 5)
    value = (base.t(), base, torch.rand(1, 3).expand(4, 3), torch.rand(6)[::2], torch.empty(0, 2), torch.tensor(1.0))
    copy = cases.clone(value)
    assert [t.stride() for t in copy] == [t.stride() for t in value]
    assert all(map(torch.equal, copy, value))
    copy[0][0, 0] = 7
    assert float(copy[1][0, 0]) == 7 and float(base[0, 0]) != 7


def test_a_module_is_never_run_as_a_program(tmp_path: Path) -> None:
    """The guarded part stays untouched, and input() meets an end of file."""
    loaded = module(tmp_path, "if __name__ == '__main__':\n    raise RuntimeError\n")
    assert loaded.__name__ == "pasted_test"
    with pytest.raises(VerificationError) as caught:
        module(tmp_path, "input()\n")
    assert "EOFError" in caught.value.message and caught.value.line == 12


def test_an_error_in_get_inputs_names_its_line(tmp_path: Path) -> None:
    """The person sees where."""
    loaded = module(tmp_path, "def get_inputs():\n    return [torch.rand(-1)]\n")
    with pytest.raises(VerificationError) as caught:
        cases.build_inputs(loaded, Case(1))
    assert caught.value.code == "reference_error" and caught.value.line == 13


def test_what_is_not_a_module_is_said(tmp_path: Path) -> None:
    """A class of another kind is no problem to convert."""
    loaded = cases.load("class Model:\n    pass\n", tmp_path / "pasted_other.py")
    with pytest.raises(VerificationError, match=r"not an nn.Module"):
        cases.construct(loaded, "Model", 1)


def network() -> nn.Module:
    """Build a module with everything that hides a mistake."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Embedding(5, 4, padding_idx=0))
    net.register_buffer("mask", torch.tril(torch.ones(3, 3)))
    net.register_buffer("index", torch.arange(3))
    net.tied = net[0].weight
    return net


def test_randomised_parameters_hide_nothing() -> None:
    """No weight stays one, no bias stays zero, variances stay positive, tables stay as they are, ties stay tied."""
    before, net = network(), network()
    cases.randomise(net, 3)
    norm = net[1]
    assert isinstance(norm, nn.BatchNorm1d) and norm.running_var is not None and norm.running_mean is not None
    assert bool((norm.weight != 1).all() and (norm.bias != 0).all() and (norm.running_mean != 0).all())
    assert bool((norm.running_var > 0).all()) and bool((norm.running_var != 1).all())
    assert torch.equal(net.mask, before.mask) and torch.equal(net.index, before.index)
    assert net.tied is net[0].weight
    assert float(net[2].weight[0].detach().abs().sum()) == 0


def test_randomised_parameters_depend_on_name_and_seed_alone() -> None:
    """Two processes agree; another seed does not."""
    one, two, three = network(), network(), network()
    for net, seed in ((one, 3), (two, 3), (three, 4)):
        cases.randomise(net, seed)
    same = [torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True)]
    assert all(same) and not torch.equal(one[0].weight, three[0].weight)
