"""The share of wrong kernels that the verifier catches: random mutations of right kernels, judged without a GPU.

`python -m tests.benchmarks.mutations [--count N] [--seed N] [--builtin]` prints a table by kind of mutation and then
each mutant that was not refused, to be explained or mended. Mutants that compute the same (a mask that is never
needed) are not drawn where they are known: tests/verifier/mutants/equivalent.py says why for each.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator

import backends
from backends import Request
from tests.backends.compiler.examples import EXAMPLES, MORE
from tests.verifier.mutants.equivalent import reason
from tests.verifier.mutants.mutate import mutations
from tests.verifier.mutants.subjects import Subject, written_by_hand
from tests.verifier.mutants.trials import Trial, drawn, judged
from verifier import open_verifier
from verifier.desk import Verifier
from verifier.problem import Problem
from verifier.verdict import Verdict


def main() -> None:
    """Judge and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="mutants to judge (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="subjects whose name contains this")
    parser.add_argument("--builtin", action="store_true", help="also kernels that builtin writes")
    chosen = parser.parse_args()
    judge = open_verifier(device="cpu")
    try:
        subjects = [*written_by_hand(), *(written_by_builtin(judge) if chosen.builtin else ())]
        subjects = [subject for subject in subjects if chosen.only in subject.name]
        for subject in subjects:
            *_, verdict = judge.verify(subject.problem, subject.kernel, speed=False, seed=chosen.seed)
            assert isinstance(verdict, Verdict)
            made = mutations(subject.kernel)
            same = sum(bool(reason(subject.name, mutation)) for mutation in made)
            said = f"{verdict.outcome} {verdict.code}".strip()
            print(f"{subject.name:45} {said}, {len(made)} mutants, {same} of them known to compute the same")
        began = time.monotonic()
        trials = []
        for trial in judged(judge, drawn(subjects, chosen.count, chosen.seed), chosen.seed):
            trials.append(trial)
            if not trial.caught:
                print(_missed(trial), flush=True)
        _report(trials, time.monotonic() - began)
    finally:
        judge.close()


def written_by_builtin(judge: Verifier) -> Iterator[Subject]:
    """Have the compiler write its own examples."""
    writer = backends.open("builtin", spawn=judge.spawn)
    for name, example in {**EXAMPLES, **MORE}.items():
        chunks = writer.write(Request(example.text, "Model"))
        yield Subject(f"builtin: {name}", Problem(example.text, "Model"), "".join(c.text for c in chunks))


def _missed(trial: Trial) -> str:
    said = "; ".join(trial.verdict.warnings) or "no warning"
    return f"  {trial.verdict.outcome} | {trial.subject.name} | {trial.mutation} | {said[:160]}"


def _report(trials: list[Trial], seconds: float) -> None:
    made, caught = Counter(t.mutation.kind for t in trials), Counter(t.mutation.kind for t in trials if t.caught)
    print(f"\n{'mutation':22} made  refused")
    for kind in sorted(made):
        print(f"{kind:22} {made[kind]:4}  {caught[kind]:4}  {100 * caught[kind] / made[kind]:5.1f} %")
    total = sum(caught.values())
    print(f"{'all':22} {len(trials):4}  {total:4}  {100 * total / max(1, len(trials)):5.1f} %, {seconds:.0f} s")
    said = Counter(t.verdict.code for t in trials if t.caught)
    print("refused as: " + ", ".join(f"{code} {count}" for code, count in said.most_common()))


if __name__ == "__main__":
    main()
