"""One nursery and one verifier for all tests of this folder: their processes start once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from verifier import Verdict
from verifier.desk import WorkerVerifier
from verifier.nursery import Nursery
from verifier.problem import Problem


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Forking processes."""
    opened = Nursery()
    opened.start()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def desk() -> Iterator[WorkerVerifier]:
    """A verifier as the terminal holds it."""
    opened = WorkerVerifier("cpu")
    yield opened
    opened.close()


class Judge:
    """Asks for verdicts on the processor."""

    def __init__(self, desk: WorkerVerifier) -> None:
        self.desk = desk

    def __call__(self, problem: Problem, kernel: str, **options: float) -> Verdict:
        """Return the verdict."""
        steps = list(self.desk.verify(problem, kernel, speed=False, **options))
        assert isinstance(steps[-1], Verdict)
        return steps[-1]


@pytest.fixture
def judge(desk: WorkerVerifier) -> Judge:
    """Return a function from problem and kernel to verdict."""
    return Judge(desk)
