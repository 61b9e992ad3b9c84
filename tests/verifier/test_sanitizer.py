"""compute-sanitizer's reports become a row: read from its log, and run around the candidate's child (by a stand-in)."""

from __future__ import annotations

import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from repl.arguments import parse
from tests.verifier.conftest import Judge
from tests.verifier.kernels import PROBLEM, RIGHT, with_forward
from verifier import sanitizer
from verifier.checks import loads, values
from verifier.checks import sanitizer as check
from verifier.containment import Contained
from verifier.nursery import Nursery
from verifier.trial import Failed, Trial
from verifier.truth import Reference

KERNEL = "scaled_leaky_relu"
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
OUTSIDE = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at scaled_leaky_relu+0x1f0 in kernel.py:14
=========     by thread (57,0,0) in block (2,0,0)
=========     Access to 0x7f05a1e002e4 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f05a1e00000 of size 740 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: [0x2f26f0] in libcuda.so.1
=========
========= ERROR SUMMARY: 1 error
"""
BY_PYTORCH = OUTSIDE.replace("scaled_leaky_relu+0x1f0 in kernel.py:14", "void at::native::fill(float *)+0x70")
OLDER = OUTSIDE.replace("at scaled_leaky_relu+0x1f0 in kernel.py:14", "at 0x1f0 in kernel.py:14:scaled_leaky_relu")
MISALIGNED = OUTSIDE.replace("Access to 0x7f05a1e002e4 is out of bounds", "Address 0x7f05a1e002e5 is misaligned")
RACE = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at scaled_leaky_relu+0x90 in kernel.py:13
=========     and Read access at scaled_leaky_relu+0xa0 in kernel.py:14 [64 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
HAZARD = RACE.replace("Error: ", "Warning: ").replace("1 error, 0 warnings", "0 errors, 1 warning")
NO_HAZARDS = "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
LOGS = {
    OUTSIDE: ("out_of_bounds", True, KERNEL),
    OLDER: ("out_of_bounds", True, KERNEL),
    MISALIGNED: ("illegal_access", True, KERNEL),
    BY_PYTORCH: ("out_of_bounds", True, ""),
    RACE: ("race", True, KERNEL),
    HAZARD: ("race", False, KERNEL),
}
PROGRAM = """\
#!{python}
import os
import sys

arguments = sys.argv[1:]
with open(arguments[arguments.index("--log-file") + 1], "w") as log:
    log.write({log!r})
at = arguments.index({python!r})
os.execv(arguments[at], arguments[at:])
"""


@pytest.mark.parametrize("log", LOGS)
def test_reports_are_read(log: str) -> None:
    """Each has a code, says where it happened, and names the kernel if it is the candidate's."""
    (report,) = sanitizer.reports(log, [KERNEL]) or []
    assert (report.code, report.serious, report.kernel) == LOGS[log]
    assert "host" not in report.text.lower() and "SUMMARY" not in report.text


@pytest.mark.parametrize("log", [CLEAN, NO_HAZARDS])
def test_nothing_found_is_an_empty_list(log: str) -> None:
    """A summary without reports."""
    assert sanitizer.reports(log, [KERNEL]) == []


@pytest.mark.parametrize("log", ["", OUTSIDE.partition("========= ERROR")[0], "ERROR SUMMARY: 0 errors\n"])
def test_a_log_without_its_end_proves_nothing(log: str) -> None:
    """The summary is missing where the program was ended, or where somebody else has written the line."""
    assert sanitizer.reports(log, [KERNEL]) is None


REFUSED = """\
========= COMPUTE-SANITIZER
========= Program hit cudaErrorInvalidValue (error 1) due to "invalid argument" on CUDA API call to cudaMemcpy.
=========     Saved host backtrace up to driver entry point at error
=========
========= ERROR SUMMARY: 1 error
"""


@pytest.fixture(scope="module")
def tried(nursery: Nursery) -> Trial:
    """A trial that has called its candidate once."""
    made = Trial(PROBLEM, RIGHT, Reference.open(PROBLEM), Contained(nursery, "cpu"), None, "cpu", 60.0)
    list(loads.check(made))
    values.first(made)
    made.process.close()
    return made


@pytest.fixture
def trial(tried: Trial) -> Trial:
    """The same, with nothing said about it yet."""
    return replace(tried, warnings=[])


def stand_in(folder: Path, log: str) -> str:
    """Write a program that leaves this log and then is the program it was to look at."""
    path = folder / sanitizer.NAME
    path.write_text(PROGRAM.format(python=sys.executable, log=log))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_clean_run_is_a_row(trial: Trial, nursery: Nursery, tmp_path: Path) -> None:
    """The candidate is loaded and judged inside the program."""
    row = check.examine(trial, nursery, stand_in(tmp_path, CLEAN), ("memcheck",))
    assert (row.name, row.outcome, row.detail) == ("sanitizer", "pass", "memcheck: nothing found")
    assert trial.warnings == []


def test_what_is_found_fails_the_kernel(trial: Trial, nursery: Nursery, tmp_path: Path) -> None:
    """With the tool, the line and the place in its message."""
    with pytest.raises(Failed, match=r"memcheck: Invalid .*kernel\.py:14") as caught:
        check.examine(trial, nursery, stand_in(tmp_path, OUTSIDE), ("memcheck",))
    assert caught.value.code == "out_of_bounds"


def test_a_kernel_that_is_wrong_there_has_not_been_looked_at(trial: Trial, nursery: Nursery, tmp_path: Path) -> None:
    """Whoever notices the tool and leaves the work out is no clean kernel."""
    lazy = with_forward("import os\nreturn self.launch(x) * ('PYTORCH_NO_CUDA_MEMORY_CACHING' not in os.environ)")
    row = check.examine(replace(trial, kernel=lazy), nursery, stand_in(tmp_path, CLEAN), ("memcheck",))
    assert (row.outcome, row.detail) == ("warn", "memcheck: no answer") and "zero" in trial.warnings[0]


def test_a_race_fails_the_kernel(trial: Trial) -> None:
    """Where racecheck calls it an error."""
    with pytest.raises(Failed) as caught:
        check.judged(trial, "racecheck", sanitizer.reports(RACE, [KERNEL]), "")
    assert caught.value.code == "race"


@pytest.mark.parametrize("log", [BY_PYTORCH, HAZARD, REFUSED, ""])
def test_what_is_none_of_its_business_is_a_warning(trial: Trial, log: str) -> None:
    """PyTorch's own kernels, hazards that the tool itself only warns about, calls that CUDA refuses, no report."""
    text = check.judged(trial, "memcheck", sanitizer.reports(log, [KERNEL]), "")
    assert not text.endswith(check.CLEAN) and len(trial.warnings) == 1


def test_without_a_gpu_one_line_says_so(judge: Judge) -> None:
    """Asked for where it cannot be, it is skipped, and the kernel passes all the same."""
    verdict = judge(PROBLEM, RIGHT, sanitize="memcheck")
    assert verdict.passed and [row.outcome for row in verdict.checks if row.name == "sanitizer"] == ["skip"]


def test_the_program_is_looked_for_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And in CUDA's own folder; where it is in neither, there is none."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sanitizer, "_PLACES", ())
    assert sanitizer.program() == ""
    path = stand_in(tmp_path, CLEAN)
    assert sanitizer.program() == path
    monkeypatch.setenv("PATH", "")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert sanitizer.program() == ""
    stand_in(tmp_path / "bin", CLEAN)
    assert sanitizer.program() == str(tmp_path / "bin" / sanitizer.NAME)


def test_the_option() -> None:
    """It takes a tool's name, so that no file is mistaken for one."""
    assert parse(["m.py", "--sanitize", "racecheck"]).options.for_verifier()["sanitize"] == "racecheck"
    assert parse(["m.py"]).options.for_verifier()["sanitize"] == ""
