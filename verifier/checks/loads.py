"""Can the candidate's file be loaded and its ModelNew be constructed? Then it gets the module's parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from verifier.checks import parameters
from verifier.trial import Answer, Trial
from verifier.verdict import Check
from verifier.whereabouts import asks_where_it_runs


def check(trial: Trial, *, contained: bool = True) -> Iterator[Check]:
    """Load it in the trial's process, which has nothing loaded yet."""
    reference = trial.reference
    request: Answer = {
        "do": "load",
        "device": trial.device,
        "kernel": reference.kernel_text(trial.kernel),
        "source": reference.problem.source,
        "seed": reference.init_seed,
        "compiled": trial.compiled,
    }
    answer, _ = trial.ask(request)
    trial.state, trial.scratch = answer["state"], str(answer["scratch"])
    if trial.cpu and asks_where_it_runs(ast.parse(trial.kernel)):
        trial.warn("the kernel file asks whether there is a GPU, or an interpreter: what it does on a GPU was not seen")
    for missing in answer["missing"]:
        trial.warn(missing)
    yield Check("loads", "pass", "ModelNew is constructed" if contained else "in this process, without protection")
    yield parameters.check(trial)
