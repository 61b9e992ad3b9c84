"""What a language model is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

import verifier
from backends import Request
from backends.briefing import Briefing
from backends.examples import example, example_for, names
from backends.extract import extract
from backends.facts import facts
from backends.prompt import LIMIT, messages, raw
from verifier.nursery import Nursery
from verifier.problem import Problem

SOURCE = "class Mine(nn.Module): ...  # {} stays"
ATTENTIONS = sorted(p for p in (Path(__file__).parent / "examples").glob("*.py") if p.stem != "__init__")
ONE = example("matmul").problem


def test_the_persons_module_is_in_the_prompt() -> None:
    """Chat and raw prompt both carry the module that was given, not a default one."""
    assert SOURCE in messages(Request(SOURCE, "Mine"))[1]["content"]
    assert SOURCE in raw(SOURCE)


def test_own_template_is_filled_once() -> None:
    """A model's own template takes the module at its {}, and braces in the module stay."""
    assert raw(SOURCE, "before {} after") == f"before {SOURCE} after"


def test_the_order_keeps_a_servers_prefix_cache() -> None:
    """What every candidate shares comes first: role, example, facts, module; then the wish, then the findings."""
    request = Request(SOURCE, "Mine", feedback=("it failed",), instructions="use 64 rows a program")
    system, user = (message["content"] for message in messages(request, ["target: H200"]))
    assert system == messages(Request(SOURCE, "Mine"))[0]["content"]
    places = [user.index(part) for part in ("target: H200", SOURCE, "use 64 rows", "it failed", "complete file")]
    assert places == sorted(places)


def test_feedback_is_told_newest_last_and_bounded() -> None:
    """What was found follows the module; the oldest goes first when it is too much."""
    request = Request(SOURCE, "Mine", feedback=("a" * LIMIT, "second found", "third found"))
    task = messages(request)[1]["content"]
    assert task.index("second found") < task.index("third found") and "aaa" not in task
    assert len(messages(Request(SOURCE, "Mine", feedback=("b" * 9 * LIMIT,)))[1]["content"]) < 1.1 * LIMIT


@pytest.mark.parametrize(
    ("forward", "name"),
    [
        ("torch.relu(x) * 2", "elementwise"),
        ("x.sum(dim=1)", "reduction"),
        ("F.layer_norm(x, x.shape[-1:])", "softmax"),
        ("self.linear(x).sigmoid()", "matmul"),
        ("x @ x.mT", "matmul"),
        ("F.scaled_dot_product_attention(q, k, v)", "attention"),
        ("torch.softmax(q @ k.mT, -1) @ v", "attention"),
        ("self.conv(x)", "pooling"),
        ("F.cross_entropy(x, y)", "loss"),
    ],
)
def test_the_example_is_of_the_same_class(forward: str, name: str) -> None:
    """A module is shown an example that works as its own answer will."""
    source = f"class Model(nn.Module):\n    def forward(self, x):\n        return {forward}\n"
    assert example_for(source).name == name
    assert example(name).kernel.strip() in messages(Request(source, "Model"))[0]["content"]


def test_comments_and_inputs_do_not_choose_the_example() -> None:
    """What the module computes counts, not what is said about it or how its inputs are made."""
    forward = "def forward(self, x):\n    # a linear layer once\n    return x + 1\n"
    source = forward + "\ndef get_inputs():\n    return torch.mm(a, b)\n"
    assert example_for(source).name == "elementwise"


@pytest.mark.parametrize("name", names())
def test_an_example_is_a_problem_and_its_answer(name: str) -> None:
    """The problem is read as one, and its answer is read back out of a fence unchanged."""
    shown = example(name)
    assert Problem.parse(shown.problem).entry == "Model"
    assert extract(f"```python\n{shown.kernel}```") == shown.kernel


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_an_example_passes_our_verifier(name: str) -> None:
    """A model is shown nothing that we would not accept."""
    shown = example(name)
    assert verifier.verify(Problem.parse(shown.problem), shown.kernel, device="cpu", speed=False).passed


@pytest.mark.parametrize("path", ATTENTIONS, ids=lambda path: path.stem)
def test_attention_variants(path: Path) -> None:
    """Each variant is a problem; its prompt shows attention in blocks, the module's own mask, and its measured work."""
    source = path.read_text(encoding="utf-8")
    problem = Problem.parse(source)
    known = facts(problem.source, problem.entry)
    system, user = (message["content"] for message in messages(Request(problem.source, problem.entry), known))
    assert "def attention_kernel(" in system and "-inf" in system
    assert problem.source.strip() in user
    assert "argument 3 float32[2, 4, 48, 16]" in user and "bmm x2" in user and "_softmax" in user
    assert "MB read and written once" in user and "GFLOP" in user


def test_there_are_five_attention_variants() -> None:
    """Causal, relative position, ALiBi, sliding window, spatial neighbourhood."""
    assert len(ATTENTIONS) == 5


def test_facts_are_measured_on_the_module() -> None:
    """Shapes, parameters, operations and the least work are those of the module, found without data."""
    told = facts(ONE, "Model")
    assert told[0].startswith("target: ") and "Triton" in told[0]
    assert "inputs: argument 1 float32[64, 96]" in told
    assert "parameters and buffers: linear.weight float32[128, 96], linear.bias float32[128]" in told
    assert "operations: addmm, sigmoid" in told
    assert told[-1] == "least work: 0.107 MB read and written once, 0.00157 GFLOP in matrix products"


def test_a_module_that_fails_has_no_facts() -> None:
    """What cannot be run leaves only the target: the verifier will say what is wrong."""
    assert len(facts("raise RuntimeError", "Model")) == 1


def test_the_briefing_asks_a_child_once() -> None:
    """Facts come from a process of their own, and are kept while the module stays the same."""
    nursery = Nursery()
    spawned: list[str] = []
    try:
        briefing = Briefing(lambda target: spawned.append(target) or nursery.spawn(target))
        first = briefing.of(Request(ONE, "Model"))
        assert first == briefing.of(Request(ONE, "Model", candidate=3)) == tuple(facts(ONE, "Model"))
        assert spawned == ["backends.facts:serve"]
    finally:
        nursery.close()
