"""Wrong mutations of right kernels are refused: a short selection of what tests.benchmarks.mutations runs."""

from __future__ import annotations

from tests.verifier.mutants.mutate import mutations
from tests.verifier.mutants.subjects import written_by_hand
from tests.verifier.mutants.trials import drawn, judged
from verifier.desk import WorkerVerifier

SMALL = ("bias, GELU, skip", "add, LayerNorm", "SwiGLU, in part", "bits")
COUNT, SEED = 14, 5


def test_every_mutant_of_a_fixed_draw_is_refused(desk: WorkerVerifier) -> None:
    """Each kind of mutation about once; the share over all of them is the benchmark's to report."""
    subjects = [subject for subject in written_by_hand() if subject.name in SMALL]
    trials = list(judged(desk, drawn(subjects, COUNT, SEED), SEED))
    assert [str(trial.mutation) for trial in trials if not trial.caught] == []


def test_a_mutation_changes_one_place() -> None:
    """Everything outside the replaced expression stays as it was, and every mutant parses."""
    for subject in written_by_hand():
        for mutation in mutations(subject.kernel):
            compile(mutation.text, "mutant", "exec")
            assert mutation.text != subject.kernel and mutation.after.split("\n")[0] in mutation.text
