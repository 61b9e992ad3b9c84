"""What a language model is asked."""

from __future__ import annotations

from backends import Request
from backends.extract import extract
from backends.prompt import EXAMPLE_ANSWER, EXAMPLE_PROBLEM, LIMIT, messages, raw
from verifier.problem import Problem

SOURCE = "class Mine(nn.Module): ...  # {} stays"


def test_the_persons_module_is_in_the_prompt() -> None:
    """Chat and raw prompt both carry the module that was given, not a default one."""
    assert SOURCE in messages(Request(SOURCE, "Mine"))[1]["content"]
    assert SOURCE in raw(SOURCE)


def test_own_template_is_filled_once() -> None:
    """A model's own template takes the module at its {}, and braces in the module stay."""
    assert raw(SOURCE, "before {} after") == f"before {SOURCE} after"


def test_feedback_is_told_newest_last_and_bounded() -> None:
    """What was found follows the module; the oldest goes first when it is too much."""
    request = Request(SOURCE, "Mine", feedback=("a" * LIMIT, "second found", "third found"))
    task = messages(request)[1]["content"]
    assert task.index("second found") < task.index("third found") and "aaa" not in task


def test_the_example_keeps_its_own_rules() -> None:
    """The example problem is a problem, and its answer is read back out of a fence unchanged."""
    assert Problem.parse(EXAMPLE_PROBLEM).entry == "Model"
    assert extract(f"```python\n{EXAMPLE_ANSWER}```") == EXAMPLE_ANSWER
