"""The module built with other arguments, or put in its other mode: what a kernel was written for alone is said."""

from __future__ import annotations

from dataclasses import replace

from tests.verifier.conftest import Judge
from tests.verifier.kernels import PROBLEM, RIGHT, spoiled
from tests.verifier.references import load, problem
from verifier.constructions import others
from verifier.problem import Problem
from verifier.verdict import Check, Verdict

SLOPE = replace(
    PROBLEM,
    source=PROBLEM.source.replace("(self, width):", "(self, width, slope=0.2):").replace(
        "self.scale =", "self.slope = slope\n        self.scale ="
    ).replace("x * self.scale, 0.2", "x * self.scale, self.slope"),
)  # fmt: skip
CONSTRUCTOR = ("(self, width):", "(self, width, slope=0.2):")
FOLLOWS = spoiled(
    CONSTRUCTOR, ("self.scale =", "self.slope = slope\n        self.scale ="), ("0.2 * z", "slope * z"),
    ("n, width, BLOCK", "n, width, slope, BLOCK"), ("x.shape[-1], BLOCK", "x.shape[-1], self.slope, BLOCK"),
)  # fmt: skip


def row(verdict: Verdict) -> Check | None:
    """Return the row about other builds."""
    return next((check for check in verdict.checks if check.name == "other builds"), None)


def test_a_number_that_is_followed_is_no_warning(judge: Judge) -> None:
    """The kernel was also right for another slope."""
    verdict = judge(SLOPE, FOLLOWS)
    assert verdict.passed and not verdict.warnings
    assert row(verdict) == Check("other builds", "pass", "slope 0.2 -> 0.25")


def test_a_number_that_is_written_in_is_a_warning(judge: Judge) -> None:
    """A kernel that ignores an argument is right for the one given only, and that is said."""
    verdict = judge(SLOPE, spoiled(CONSTRUCTOR))
    assert verdict.passed and "slope 0.2 -> 0.25" in verdict.warnings[0]
    assert row(verdict) == Check("other builds", "warn", "wrong: slope 0.2 -> 0.25")


def test_a_kernel_that_refuses_another_number_is_no_warning(judge: Judge) -> None:
    """It protects itself."""
    kernel = FOLLOWS.replace("self.slope = slope", "assert slope == 0.2\n        self.slope = slope")
    verdict = judge(SLOPE, kernel)
    assert verdict.passed and not verdict.warnings
    assert row(verdict) == Check("other builds", "pass", "refuses slope 0.2 -> 0.25")


def test_a_build_that_takes_too_long_is_said_to_be_untried(judge: Judge) -> None:
    """More layers may be more work than the interpreter has time for: the build that was asked for is right."""
    forever = "while slope != 0.2:\n            pass\n        self.slope = slope"
    verdict = judge(SLOPE, FOLLOWS.replace("self.slope = slope", forever), seconds=4.0)
    assert verdict.passed
    assert row(verdict) == Check("other builds", "pass", "too much to try here: slope 0.2 -> 0.25")


def test_the_other_mode_is_tried_where_there_is_one(judge: Judge) -> None:
    """A module that doubles in training; the kernel always does."""
    doubling = PROBLEM.source.replace("x * self.scale", "x * self.scale * (2 if self.training else 1)")
    kernel = spoiled(("mask=mask, other=0.0) * tl", "mask=mask, other=0.0) * 2 * tl"))
    verdict = judge(Problem(doubling, "Model", ("x",)), kernel)
    assert verdict.passed and "in evaluation" in verdict.warnings[0]
    assert row(judge(PROBLEM, RIGHT)) is None


def test_only_what_changes_the_result_is_tried() -> None:
    """A width that fits only itself, an unused argument, and an eps that makes a difference."""
    init = "n, eps, unused|self.n, self.eps = torch.ones(n), eps"
    given = load(problem("x * self.n / (x.std() + self.eps)", "torch.randn(4, 6)", "6, 1e-6, 3", constructor=init))
    assert [way.label for way in others(given)] == ["eps 1e-06 -> 0.05"]
