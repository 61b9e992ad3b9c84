"""What a bad kernel does stays its own: the next verdict, the processes and the files are as if it had never run."""

from __future__ import annotations

from tests.verifier.soaking import KINDS, soak

ALONE = {
    "right": "pass", "leaves with success": "fail process_exit", "aborts": "fail crash", "forges": "fail cheat",
}  # fmt: skip


def test_a_short_soak_leaves_nothing_behind() -> None:
    """Each verdict is the same as alone, the processes do not grow, and nothing is left after closing."""
    report = soak({kind: KINDS[kind] for kind in ALONE}, times=12, seed=1, alone=ALONE)
    assert report.different == [] and report.left_processes == 0 and report.left_files == []
    assert max(report.processes) <= 6  # twelve verdicts: one that is left behind by each would be more
    assert report.resident[-1] - report.resident[2] < 8 << 20
