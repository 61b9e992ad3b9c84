"""Mutants before the judge: drawn with a seed, every kind of mutation before any kind twice."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.verifier.mutants.equivalent import reason
from tests.verifier.mutants.mutate import Mutation, mutations
from tests.verifier.mutants.subjects import Subject
from verifier.desk import Verifier
from verifier.verdict import Verdict


@dataclass(frozen=True)
class Trial:
    """One mutant and what was said about it."""

    subject: Subject
    mutation: Mutation
    verdict: Verdict

    @property
    def caught(self) -> bool:
        """Whether it was refused."""
        return self.verdict.outcome == "fail"


def drawn(subjects: Iterable[Subject], count: int, seed: int) -> list[tuple[Subject, Mutation]]:
    """Draw mutants: kinds take turns, and within a kind chance decides."""
    rng = random.Random(seed)
    kinds: dict[str, list[tuple[Subject, Mutation]]] = {}
    for subject in subjects:
        for mutation in mutations(subject.kernel):
            if not reason(subject.name, mutation):
                kinds.setdefault(mutation.kind, []).append((subject, mutation))
    for pool in kinds.values():
        rng.shuffle(pool)
    chosen: list[tuple[Subject, Mutation]] = []
    while len(chosen) < count and any(kinds.values()):
        for kind in sorted(kinds, key=lambda kind: rng.random()):
            chosen += [kinds[kind].pop()] if kinds[kind] else []
    order = {id(subject): number for number, subject in enumerate(subjects)}
    return sorted(chosen[:count], key=lambda pair: order[id(pair[0])])  # a problem is loaded once


def judged(judge: Verifier, mutants: Iterable[tuple[Subject, Mutation]], seed: int) -> Iterator[Trial]:
    """Verify mutants one after another."""
    for subject, mutation in mutants:
        *_, verdict = judge.verify(subject.problem, mutation.text, speed=False, seed=seed)
        assert isinstance(verdict, Verdict)
        yield Trial(subject, mutation, verdict)
