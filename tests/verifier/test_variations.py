"""Other values and sizes: only where the reference agrees, never out of an index's range."""

from __future__ import annotations

import pytest
import torch

from tests.verifier.references import load, problem
from verifier import cases, variations
from verifier.cases import Case
from verifier.variations import Resize

GATHER = problem("self.table[i] * x", "torch.randint(0, 9, (6,)), torch.rand(6, 1)", "9", "i, x",
                 constructor="n|self.table = nn.Parameter(torch.randn(n, 4))")  # fmt: skip


def labels(forward: str, inputs: str, **more: str) -> set[str]:
    """Return the kinds of cases a problem admits."""
    found = load(problem(forward, inputs, **more)).cases()
    return {case.values for case in found} | {case.label.partition(":")[0] for case in found if case.sizes != "given"}


def test_an_elementwise_problem_admits_everything() -> None:
    """All values and all sizes."""
    assert labels("torch.sin(x) + y", "torch.randn(6, 8), torch.randn(6, 8)", arguments="x, y") >= {
        "given", "large", "negated", "tiny", "ties", "special", "one long row", "odd", "longer rows", "larger",
    }  # fmt: skip


def test_values_that_make_the_reference_infinite_are_left_out() -> None:
    """log of a negative number says nothing about a kernel."""
    assert "negated" not in labels("x.log()", "torch.rand(6, 8) + 0.1")
    assert "large" not in labels("x.exp()", "torch.rand(6, 8) + 1")


def test_sizes_that_the_module_fixes_are_left_out() -> None:
    """A linear layer's width is not varied, its batch is."""
    found = labels("self.fc(x)", "torch.randn(6, 8)", constructor="|self.fc = nn.Linear(8, 3)")
    assert "odd" in found and "longer rows" not in found


def test_ties_are_left_out_where_any_of_several_answers_is_right() -> None:
    """topk may return either of two equal elements; argmax is documented to return the first."""
    found = labels("torch.softmax(x, -1).topk(2).indices", "torch.randn(6, 8)")
    assert not {"ties", "special", "large"} & set(found) and "negated" in found
    assert "ties" in labels("x.argmax(-1)", "torch.randn(6, 8)")


def test_indices_stay_in_range_at_every_size() -> None:
    """New elements are further draws of get_inputs."""
    reference = load(GATHER)
    resized = [case for case in reference.cases() if case.sizes != "given"]
    assert resized
    for case in resized:
        (index, x), _ = cases.build_inputs(reference.module, case)
        assert int(index.min()) >= 0 and int(index.max()) < 9 and len(index) == len(x)


def test_masks_and_one_hot_codes_are_not_moved() -> None:
    """Zeros and ones mean something."""
    mask = torch.tensor([0.0, 1.0, 1.0])
    for values in variations.VALUES:
        assert torch.equal(variations.revalue(values, [mask.clone()], 1)[0], mask)


def test_special_values_keep_structural_zeros() -> None:
    """A lower triangle stays one."""
    matrix = torch.tril(torch.rand(30, 30) + 0.1)
    assert torch.equal(variations.revalue("special", [matrix.clone()], 1)[0].triu(1), torch.zeros(30, 30))


@pytest.mark.parametrize("rule", [Resize(((0, 0), (1, 2)), 0, 1), Resize(((0, 0),), 2, 3), Resize(((3, 1),), 1, 1)])
def test_a_resize_survives_its_text(rule: Resize) -> None:
    """Cases travel as JSON."""
    assert Resize.parse(rule.text()) == rule


def test_strides_survive_other_values() -> None:
    """A transposed input stays transposed."""
    text = problem("x * 1", "torch.rand(4, 6).t()")
    args, _ = cases.build_inputs(load(text).module, Case(1, "negated"))
    assert args[0].stride() == (1, 6) and bool((args[0] <= 0).all())


@pytest.mark.parametrize(
    ("forward", "degenerate"),
    [("x * 0", True), ("x - x.amax(-1, keepdim=True) - (x - x.amax(-1, keepdim=True))", True),
     ("torch.ones_like(x) / 7", True), ("(x * 1e-9).softmax(-1)", True),
     ("x.softmax(-1)", False), ("(x > 9).float()", True), ("x.argmax(-1)", False)],
)  # fmt: skip
def test_a_problem_that_proves_nothing_is_called_degenerate(forward: str, degenerate: bool) -> None:
    """Zeros or one value would pass, or the output does not follow the input."""
    assert load(problem(forward, "torch.randn(6, 8)")).degenerate is degenerate
