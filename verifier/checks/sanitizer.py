"""What NVIDIA's compute-sanitizer finds while the kernel runs once: on request, on a GPU, where it is installed."""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from verifier import sanitizer
from verifier.candidate import KERNEL_FILE
from verifier.checks import loads, values
from verifier.containment import Contained
from verifier.nursery import Nursery
from verifier.sanitizer import Report
from verifier.trial import CannotVerify, Failed, Trial
from verifier.verdict import Check, CheckOutcome

ROW = "sanitizer"
CLEAN = "nothing found"
SECONDS = 300.0
"""For loading and one call: everything runs ten to a hundred times slower."""
ENDING = 60.0
"""For starting it, and for its report once the candidate has ended."""


def check(trial: Trial, nursery: Nursery | None, wanted: str) -> Check:
    """Run the first case under every tool asked for; raise Failed for what one reports of the candidate's kernels."""
    missing = _missing(trial, nursery)
    if missing:
        return Check(ROW, "skip", missing)
    assert nursery is not None
    return examine(trial, nursery, sanitizer.program(), sanitizer.TOOLS[wanted])


def _missing(trial: Trial, nursery: Nursery | None) -> str:
    if trial.cpu:
        return f"{sanitizer.NAME} needs a GPU"
    if nursery is None:
        return f"{sanitizer.NAME} is not run around this process: leave --in-process out"
    if not sanitizer.program():
        return f"{sanitizer.NAME} is not installed here: it comes with the CUDA toolkit, and is looked for on PATH"
    return ""


def examine(trial: Trial, nursery: Nursery, program: str, tools: tuple[str, ...]) -> Check:
    """Do it, where everything for it is there."""
    assert trial.first is not None
    kernels = {KERNEL_FILE, *(str(launch["kernel"]) for launch in trial.first.launches)}
    said = []
    for tool in tools:
        log, stumbled = _under(trial, nursery, program, tool)
        said.append(judged(trial, tool, sanitizer.reports(log, kernels), stumbled))
    outcome: CheckOutcome = "pass" if all(text.endswith(CLEAN) for text in said) else "warn"
    return Check(ROW, outcome, ", ".join(said))


def judged(trial: Trial, tool: str, found: list[Report] | None, stumbled: str) -> str:
    """Say in a few words what a tool found; `stumbled` is what went wrong with the candidate's call there."""
    for report in found or ():
        if report.serious and report.kernel:
            raise Failed(report.code, f"{tool}: {report.text}")
    if found is None or stumbled:
        trial.warn(f"{sanitizer.NAME} has not looked ({tool}): {stumbled or 'it did not come to its end'}")
        return f"{tool}: no answer"
    for report in found:
        trial.warn(f"{tool}: {report.text}")
    return f"{tool}: {len(found)} more reports" if found else f"{tool}: {CLEAN}"


def _under(trial: Trial, nursery: Nursery, program: str, tool: str) -> tuple[str, str]:
    """Return what a tool wrote, where the candidate cannot, and what went wrong in the candidate, if anything did."""
    stumbled = ""
    with tempfile.TemporaryDirectory(prefix="kernelllm-") as folder:
        log = Path(folder, "report.txt")
        with closing(Contained(nursery, trial.device, "verifier.sanitized:serve")) as child:
            child.begin({"program": program, "tool": tool, "log": str(log)}, ENDING)
            there = replace(trial, process=child, warnings=[], seconds=SECONDS, guarded=False)
            try:
                list(loads.check(there))
                values.first(there)
            except (Failed, CannotVerify) as failure:  # it was right before: what is new is the tool
                stumbled = failure.message
            child.finish(ENDING)
        return (log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""), stumbled
