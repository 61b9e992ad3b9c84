"""NVIDIA's compute-sanitizer: where it is, how it is started, and what its report says. No torch here."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

NAME = "compute-sanitizer"
TOOLS = {"memcheck": ("memcheck",), "racecheck": ("racecheck",), "both": ("memcheck", "racecheck")}
"""What can be asked for, and the tools it takes: addresses, and hazards in shared memory."""
_PLACES = ("/usr/local/cuda/bin",)
MOST = 4
"""Lines of a report that are kept: where it happened, which thread, which address, what lies beside it."""

_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)")
_ADDRESS = re.compile(r"Invalid __\w+__ (?:atomic|read|write)|Misaligned ", re.IGNORECASE)
_RACE = re.compile(r"(Error|Warning): (?:Race reported between|Potential) .*")
_HOST = ("Saved host backtrace", "Host Frame", "in /")


@dataclass(frozen=True)
class Report:
    """One thing that a tool reports: its code among the verdict's, one line of it, and whether it is serious.

    `kernel` is the launched kernel that it names, "" where it names none: then it is PyTorch's, not the candidate's.
    """

    code: Literal["out_of_bounds", "illegal_access", "race"]
    text: str
    serious: bool
    kernel: str


def program() -> str:
    """Return where the program is installed, "" where it is not."""
    homes = [os.path.join(home, "bin") for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")) if home]
    return shutil.which(NAME) or shutil.which(NAME, path=os.pathsep.join([*homes, *_PLACES])) or ""


def command(path: str, tool: str, log: str) -> list[str]:
    """Return how to start it; the program to look at goes behind."""
    return [path, "--tool", tool, "--log-file", log, "--target-processes", "application-only", "--print-limit", "20"]


def reports(log: str, kernels: Collection[str]) -> list[Report] | None:
    """Read a log; None where it has no summary, which is printed at the very end.

    What is counted there but is neither an address nor a hazard (a call that CUDA refuses) is one report, not serious.
    """
    lines = [line.removeprefix("=========").strip() for line in log.splitlines() if line.startswith("=========")]
    counted = [int(summary[1]) for line in lines if (summary := _SUMMARY.match(line))]
    if not counted:
        return None
    found = [_report(lines[at:], kernels) for at, line in enumerate(lines) if _RACE.match(line) or _ADDRESS.match(line)]
    if sum(counted) and not found:
        unknown = "; ".join([line for line in lines[1:] if not _SUMMARY.match(line)][:MOST])
        found.append(Report("illegal_access", unknown, serious=False, kernel=""))
    return found


def _report(lines: list[str], kernels: Collection[str]) -> Report:
    text = "; ".join([lines[0], *_details(lines[1:])])
    kernel = next((name for name in kernels if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)), "")
    if race := _RACE.match(lines[0]):
        return Report("race", text, race[1] == "Error", kernel)
    return Report("illegal_access" if "misaligned" in text.lower() else "out_of_bounds", text, True, kernel)


def _details(lines: list[str]) -> list[str]:
    """Return what belongs to a report: where it happened and to which memory, without the host's side."""
    kept: list[str] = []
    for line in lines:
        if not line or line.startswith(_HOST) or _SUMMARY.match(line) or len(kept) == MOST:
            break
        kept.append(line)
    return kept
