"""Counting the results of many problems."""

from __future__ import annotations

from typing import Any

import pytest

from repl.tally import counts, natural, pass_at, rows, summary
from repl.turn import Candidate, Trouble, Turn
from verifier.verdict import Timing, Verdict


def result(level: str, *verdicts: Verdict, error: Trouble | None = None) -> dict[str, Any]:
    """One line of a batch."""
    drawn = tuple(Candidate("b", f"candidate {n}", "k", v) for n, v in enumerate(verdicts))
    return {"file": "f", "level": level, **Turn(candidates=drawn, error=error).to_dict()}


def right(speedup: float | None = None, left: tuple[str, ...] = ()) -> Verdict:
    """A verified kernel."""
    timing = Timing(1.0, speedup, None, speedup, (speedup, speedup)) if speedup else None
    return Verdict("pass", in_triton=("a",), in_pytorch=left, timing=timing)


RESULTS = [
    result("level1", right(2.0)),
    result("level1", right(0.5, left=("conv2d",))),
    result("level2", Verdict("fail", "value_mismatch")),
    result("level10", error=Trouble("nothing_to_convert", "no")),
]


def test_counts() -> None:
    """What was converted and what was verified are counted apart, and every reason is named."""
    tally = counts(RESULTS)
    assert (tally["wholly"], tally["partly"], tally["not_converted"]) == (2, 1, 1)
    assert (tally["verified"], tally["failed"], tally["cannot_verify"]) == (2, 1, 0)
    assert tally["codes"] == {"value_mismatch": 1, "nothing_to_convert": 1}


def test_speeds() -> None:
    """The mean is geometric over timed problems; the shares of fast_p are over all."""
    tally = counts(RESULTS)
    assert tally["geomean"] == pytest.approx(1.0) and tally["fast"] == {"1": 0.25, "1.5": 0.25, "2": 0.0}
    assert "geomean" not in counts([result("x", right())])


def test_pass_at_k() -> None:
    """The estimate is the unbiased one: of 4 samples with 1 right, two hold it in half of the draws."""
    assert pass_at(4, 1, 2) == pytest.approx(0.5) and pass_at(4, 0, 4) == 0 and pass_at(4, 4, 1) == 1
    wrong = Verdict("fail", "crash")
    assert counts([result("x", right(), wrong)])["pass_at"] == {"1": 0.5, "2": 1.0}


def loop(seconds: float, *candidates: Candidate) -> dict[str, Any]:
    """One problem of a closed loop."""
    return {"file": "f", "level": "x", **Turn(candidates=candidates, seconds=seconds).to_dict()}


WRONG = Verdict("fail", "value_mismatch")


def test_fixes_are_no_samples_and_solve_all_the_same() -> None:
    """pass@k counts fresh samples alone; what a fix solved is in the share within the budget, by its minute."""
    fixed = loop(
        400.0,
        Candidate("m", "candidate 1", "a", WRONG, 1, seconds=10),
        Candidate("m", "candidate 2", "b", WRONG, 2, seconds=20),
        Candidate("m", "fix 3 of 2", "c", right(), 3, 2, seconds=200),
    )
    at_once = loop(
        30.0,
        Candidate("m", "candidate 1", "a", right(), 1, seconds=20),
        Candidate("m", "candidate 2", "b", WRONG, 2, seconds=25),
    )
    tally = counts([fixed, at_once])
    assert tally["pass_at"] == {"1": 0.25, "2": 0.5}
    assert tally["solved"] == 1.0
    assert tally["solved_within"] == {"0.5": 0.5, "1": 0.5, "2": 0.5, "5": 1.0, "10": 1.0}
    told = list(rows(summary([fixed, at_once], 1.0)))
    assert any(row.startswith("solved within the budget: 100%; within 0.5 min 50%") for row in told)


def test_repaired_kernels_are_counted_apart() -> None:
    """A problem counts as repaired when nothing was right without it."""
    mended = Candidate("m", "candidate 1", "a", right(), 1, repaired=("grid is gone",))
    by_itself = Candidate("m", "candidate 2", "b", right(), 2)
    assert counts([loop(1.0, mended), loop(1.0, mended, by_itself)])["repaired"] == 1
    assert "repaired" not in counts([loop(1.0, by_itself)])


def test_levels_are_in_the_order_of_numbers() -> None:
    """level2 comes before level10, and the table ends with all."""
    table = list(rows(summary(RESULTS, 1.0)))
    assert [line.split()[0] for line in table[1:5]] == ["level1", "level2", "level10", "all"]
    assert sorted(["10_b", "9_a", "1_c"], key=natural) == ["1_c", "9_a", "10_b"]
