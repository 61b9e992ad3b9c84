"""What a reference answers, and that the traps of tolerance are closed."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.verifier.references import HEAD, LAYER_NORM, LINEAR, SOFTMAX, judge, load, problem
from verifier.compare import compare_inputs
from verifier.errors import VerificationError
from verifier.problem import Problem
from verifier.structure import Finding
from verifier.tolerance import truth
from verifier.tree import flatten
from verifier.truth import Reference


def code(finding: Finding | None) -> str:
    """Return the code of a finding, empty for none."""
    return finding.code if finding else ""


def test_zeros_do_not_pass_a_softmax_over_two_thousand_columns() -> None:
    """Outputs of 5e-4 are judged by their own size."""
    finding = judge(load(SOFTMAX), lambda model, x: torch.zeros_like(x))
    assert code(finding) == "value_mismatch" and "all zeros" in str(finding)


def test_a_uniform_answer_does_not_pass_a_softmax() -> None:
    """1/n everywhere is close in absolute terms only."""
    assert code(judge(load(SOFTMAX), lambda model, x: torch.full_like(x, 1 / 2000)))


def test_softmax_without_the_maximum_fails_on_large_values() -> None:
    """exp overflows as soon as inputs are a hundred times larger."""
    reference = load(SOFTMAX)
    naive = lambda model, x: x.exp() / x.exp().sum(-1, keepdim=True)  # noqa: E731
    assert code(judge(reference, naive)) == ""
    assert code(judge(reference, naive, "large")) in ("nan_output", "value_mismatch")


def test_half_precision_that_the_module_itself_computes_in_is_no_downgrade() -> None:
    """The softmax of a bfloat16 product differs with the order of the product's sums; its float32 does not show it."""
    linear = "F.linear(x.bfloat16(), self.fc.weight.bfloat16(), self.fc.bias.bfloat16())"
    layer = "k, n|self.fc = nn.Linear(k, n)"
    forward = f"torch.softmax({linear}.float(), -1)"
    reference = load(problem(forward, "torch.randn(37, 53)", "53, 29", constructor=layer))

    def other_order(model: nn.Module, x: Tensor) -> Tensor:
        fc = model.fc
        assert isinstance(fc, nn.Linear)
        a, w, b = (tensor.bfloat16().double() for tensor in (x, fc.weight, fc.bias))
        return torch.softmax((F.linear(a, w).bfloat16() + b).bfloat16().float(), -1)

    assert code(judge(reference, other_order, "large")) == ""
    assert code(judge(reference, lambda model, x: other_order(model, x).roll(1, 0), "large")) == "value_mismatch"


@pytest.mark.parametrize("narrow", [torch.float16, torch.bfloat16])
def test_half_precision_compute_in_a_float32_problem_is_named(narrow: torch.dtype) -> None:
    """The result is close, and it is not what float32 gives."""

    def halved(model: nn.Module, x: Tensor) -> Tensor:
        fc = model.fc
        assert isinstance(fc, nn.Linear)
        return F.relu(F.linear(x.to(narrow), fc.weight.to(narrow), fc.bias.to(narrow))).float()

    assert code(judge(load(LINEAR), halved)) == "precision_downgrade"


def test_another_order_of_summation_passes() -> None:
    """Blocks of the inner dimension summed one after another are as right as eager."""

    def blocked(model: nn.Module, x: Tensor) -> Tensor:
        fc = model.fc
        assert isinstance(fc, nn.Linear)
        parts = zip(x.split(16, 1), fc.weight.split(16, 1), strict=True)
        return torch.relu(sum(a @ w.t() for a, w in parts) + fc.bias)

    assert judge(load(LINEAR), blocked) is None


def test_one_pass_variance_fails_far_from_zero_and_two_passes_do_not() -> None:
    """E[x²]-E[x]² loses everything at a mean of 3000; eager itself is inexact there and is allowed for."""

    def normalised(one_pass: bool) -> object:
        def norm(model: nn.Module, x: Tensor) -> Tensor:
            mean = x.mean(-1, keepdim=True)
            square = (x * x).mean(-1, keepdim=True) - mean * mean
            var = square if one_pass else ((x - mean) ** 2).mean(-1, keepdim=True)
            layer = model.norm
            assert isinstance(layer, nn.LayerNorm)
            return (x - mean) * torch.rsqrt(var + 1e-5) * layer.weight + layer.bias

        return norm

    reference = load(LAYER_NORM)
    assert judge(reference, normalised(False)) is None  # type: ignore[arg-type]
    assert code(judge(reference, normalised(True))) in ("value_mismatch", "nan_output")  # type: ignore[arg-type]


def test_ignoring_the_affine_parameters_fails() -> None:
    """Ones and zeros are moved before anything is compared."""
    assert code(judge(load(LAYER_NORM), lambda model, x: F.layer_norm(x, (200,)))) == "value_mismatch"


def test_nan_in_the_tail_is_found_and_placed() -> None:
    """NaN never compares as close."""

    def tailless(model: nn.Module, x: Tensor) -> Tensor:
        result = torch.softmax(x, -1)
        result.view(-1)[-5:] = float("nan")
        return result

    finding = judge(load(SOFTMAX), tailless)
    assert code(finding) == "nan_output" and "only the tail" in str(finding)


def test_an_unwritten_tail_is_placed() -> None:
    """The message says from which element on."""

    def tailless(model: nn.Module, x: Tensor) -> Tensor:
        result = torch.softmax(x, -1)
        result.view(-1)[15_872:] = 0
        return result

    assert "before element 15872 of 16000" in str(judge(load(SOFTMAX), tailless))


def test_two_processes_would_expect_the_same() -> None:
    """Two references with one seed agree bit for bit; another seed gives other inputs."""
    first, second, other = (load(LINEAR, seed) for seed in (5, 5, 6))
    one, two, three = (r.expected(r.first_case) for r in (first, second, other))
    assert torch.equal(one.outputs.truths[0].eager, two.outputs.truths[0].eager)
    assert not torch.equal(one.given[0], three.given[0])


def test_the_oracle_draws_the_random_numbers_of_the_narrow_type() -> None:
    """Noise and dropout are the same in float64, so that a kernel using the same calls can be compared."""
    reference = load(problem("F.dropout(x + torch.randn_like(x), 0.3)", "torch.randn(9, 40)"))
    known = reference.expected(reference.first_case).outputs.truths[0]
    assert float((known.eager.double() - known.oracle).abs().max()) < 1e-6
    assert reference.random and "random" in reference.warnings[0]


def test_a_cast_to_float32_inside_forward_does_not_narrow_the_oracle() -> None:
    """`x.float()` stays float64 there."""
    reference = load(problem("(x.float() * 1.1).sum(-1)", "torch.rand(4, 300)"))
    known = reference.expected(reference.first_case).outputs.truths[0]
    exact = reference.expected(reference.first_case).given[0].double().mul(1.1).sum(-1)
    assert torch.allclose(known.oracle, exact, rtol=1e-13)


def test_a_branch_on_the_dtype_makes_eager_the_yardstick() -> None:
    """An oracle that computes something else is dropped instead of widening the tolerance."""
    reference = load(problem("x + (1 if x.dtype == torch.float32 else 2)", "torch.rand(4, 30)"))
    assert code(judge(reference, lambda model, x: x + 2)) == "value_mismatch"
    assert judge(reference, lambda model, x: x + 1) is None


def test_inputs_that_the_reference_leaves_alone_must_come_back_bit_for_bit() -> None:
    """A change within tolerance is still a change."""
    reference = load(SOFTMAX)
    expected = reference.expected(reference.first_case)
    assert compare_inputs(expected, flatten(([expected.given[0]], {}))) is None
    assert code(compare_inputs(expected, flatten(([expected.given[0] * (1 + 1e-6)], {})))) == "input_mutation"


def test_inputs_that_the_reference_writes_must_be_written() -> None:
    """`x.add_(1)` is part of what the module does."""
    reference = load(problem("x.add_(1) * 2", "torch.rand(3, 5)"))
    expected = reference.expected(reference.first_case)
    assert expected.changed == (0,)
    assert compare_inputs(expected, flatten(([expected.given[0] + 1], {}))) is None
    assert code(compare_inputs(expected, flatten(([expected.given[0]], {})))) == "input_mutation"


def test_running_statistics_are_compared_after_the_call() -> None:
    """Batch norm in training mode leaves its buffers changed, each call from the same start."""
    reference = load(problem("self.bn(x)", "torch.randn(12, 6)", constructor="|self.bn = nn.BatchNorm1d(6)"))
    first = reference.expected(reference.first_case).state
    reference.forget()
    again = reference.expected(reference.first_case).state
    assert first.spec["keys"] == ["bn.running_mean", "bn.running_var", "bn.num_batches_tracked"]
    assert torch.equal(first.truths[0].eager, again.truths[0].eager) and int(first.truths[2].eager) == 1


def test_operations_are_listed_under_the_names_people_know() -> None:
    """linear and relu, not addmm."""
    assert load(LINEAR).ops == ("linear", "relu")


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        (problem("x @ x", "torch.rand(3, 4)"), "reference_error", "float32 3x4"),
        (Problem("import nothing_like_it\n", "Model"), "missing_package", "nothing_like_it"),
        (Problem(f"{HEAD}raise SystemExit(0)\n", "Model"), "reference_error", "exits"),
        (problem("x", "torch.rand(3)", "1, 2, 3"), "reference_error", "constructing Model"),
        (problem("x * missing", "torch.rand(3)"), "reference_error", "missing"),
    ],
)
def test_a_problem_at_fault_is_explained(given: Problem, code: str, words: str) -> None:
    """The error has its code, and the shapes or the name that matter."""
    with pytest.raises(VerificationError) as caught:
        load(given)
    assert caught.value.code == code and words in caught.value.message


def test_a_reference_that_changes_from_call_to_call_is_refused() -> None:
    """State kept outside of buffers makes every comparison meaningless."""
    source = problem("x + COUNT.append(1) if False else x + (COUNT.append(1) or len(COUNT))", "torch.rand(3)").source
    with pytest.raises(VerificationError) as caught:
        load(Problem(source + "\nCOUNT = []\n", "Model"))
    assert caught.value.code == "nondeterministic_reference"


def test_a_reference_that_changes_by_rounding_alone_is_used_and_told() -> None:
    """Atomic additions come in another order each time on a GPU: that is no reason to refuse a module."""
    source = problem("x * (1 + 1e-6 * (COUNT.append(1) or len(COUNT)))", "torch.rand(3)").source
    reference = load(Problem(source + "\nCOUNT = []\n", "Model"))
    assert any("by rounding alone" in warning for warning in reference.warnings)


def test_a_large_problem_is_opened_small() -> None:
    """What is not interpretable at full size says from what to what."""
    reference = Reference.open(problem("torch.softmax(x, 1)", "torch.rand(65536, 65536)"), seed=1)
    assert reference.shrunk.startswith("x 65536x65536 -> ") and not reference.literals
    assert reference.expected(reference.first_case).given[0].numel() <= 40_000


def test_underflow_does_not_discredit_the_oracle() -> None:
    """A softmax over hundreds of units underflows to 0 in float32 almost everywhere; float64 stays the yardstick."""
    logits = torch.randn(8, 64, dtype=torch.float64) * 500
    wide = torch.softmax(logits, dim=1)
    eager = torch.softmax(logits.float(), dim=1)
    assert (eager == 0).double().mean() > 0.5
    known = truth(eager, wide)
    assert torch.equal(known.oracle, wide)


def test_where_rounding_decides_that_is_told() -> None:
    """Nearly equal numbers, normalised: eager's own answer is noise, and a kernel's may be."""
    source = problem("(x - x.mean(1, True)) / x.std(1, keepdim=True)", "1e3 + 1e-3 * torch.rand(4, 6)")
    reference = load(source)
    assert reference.degenerate and reference.rounding_decides


def test_half_types_are_not_taken_for_noise() -> None:
    """bfloat16 is off by a per cent where all is well."""
    assert not load(problem("torch.exp(x) * x + x", "torch.randn(64).bfloat16()")).rounding_decides
