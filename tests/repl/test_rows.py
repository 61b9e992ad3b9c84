"""The rows of several candidates, and what a model thinks before it answers."""

from __future__ import annotations

import time
from dataclasses import replace

from backends.reply import Splitter
from repl.answer import Draft
from repl.events import CandidateDone, CheckDone, Dropped, Ended, Event, Finished, Started, VerdictDone, Wrote
from repl.rows import LONGEST, Rows, table
from repl.stream import Stream
from repl.thoughts import Thoughts
from repl.turn import Candidate, Turn
from repl.watch import Watch
from tests.repl.screen import Screen
from verifier.verdict import Check, Timing, Verdict

WRONG = Verdict("fail", "value_mismatch", "all of it\nis wrong")


def timed(milliseconds: float) -> Verdict:
    """A verified kernel with its time."""
    return Verdict("pass", timing=Timing(milliseconds, 1.0, None, 1.0 / milliseconds, (0.9, 1.1)))


def candidate(number: int, verdict: Verdict, **more: object) -> Candidate:
    """A candidate of a model."""
    return replace(
        Candidate("server", f"candidate {number}", f"kernel_{number} = 1\n", verdict, number, seconds=61.0 * number),
        **more,  # type: ignore[arg-type]
    )


def four(best_milliseconds: float = 0.2) -> list[Event]:
    """Four candidates: two pass, one is wrong, one repeats another."""
    verdicts = {1: timed(0.5), 2: WRONG, 4: timed(best_milliseconds)}
    events: list[Event] = [Started("server", n, 4, f"candidate {n}") for n in range(1, 5)]
    events += [Wrote("reasoning", "let me see ", 1), Wrote("code", "a = 1\nb = 2\n", 2), Wrote("status", "waits", 3)]
    events += [CandidateDone(1, "kernel_1 = 1\n"), CheckDone(Check("values", "pass"), 1)]
    events += [Dropped(3, "repeats an earlier one")]
    done = []
    for number, verdict in verdicts.items():
        done.append(candidate(number, verdict))
        events.append(VerdictDone(number, done[-1], best=verdict.passed))
    return [*events, Finished(Turn(candidates=tuple(done)))]


def test_a_row_tells_how_far_a_candidate_is() -> None:
    """Thinking, writing, waiting, verifying, and what became of it."""
    rows, events = Rows(), four()
    for event in events[:7]:
        rows.event(event)
    assert rows.live() == [
        "candidate 1: thinking · 3 words",
        "candidate 2: writing · 2 lines",
        "candidate 3: waits",
        "candidate 4: waiting",
    ]
    for event in events[7:9]:
        rows.event(event)
    assert rows.live()[0] == "candidate 1: verifying · values ✓"
    for event in events[9:]:
        rows.event(event)
    assert rows.live() == [
        "candidate 1: ✓ verified · 0.5 ms · 2.00× eager",
        "candidate 2: ✗ value_mismatch: all of it is wrong",
        "candidate 3: – repeats an earlier one",
        "candidate 4: ✓ verified · 0.2 ms · 5.00× eager · best so far",
    ]


def test_a_failed_candidate_is_not_the_best_so_far() -> None:
    """Best is said of verified kernels alone."""
    rows = Rows()
    rows.event(Started("server", 1, None, "candidate 1"))
    rows.event(VerdictDone(1, candidate(1, WRONG), best=True))
    assert rows.live() == ["candidate 1: ✗ value_mismatch: all of it is wrong"]


UNTIMED = Verdict("pass", device="cpu (interpreter)")


def test_without_times_none_is_called_the_best() -> None:
    """Where nothing was timed the kept one is called kept, and the table says why it is that one."""
    rows = Rows()
    for number in (1, 2):
        rows.event(Started("server", number, 2, f"candidate {number}"))
        rows.event(VerdictDone(number, candidate(number, UNTIMED), best=number == 1))
    assert rows.live() == ["candidate 1: ✓ verified · kept so far", "candidate 2: ✓ verified"]
    told = [text for text, _ in table(Turn(candidates=(candidate(1, UNTIMED), candidate(2, UNTIMED))), 80)]
    assert told[0].endswith("✓ verified · kept") and told[2] == " 2 are verified and none was timed: the first is kept"
    partly = candidate(1, replace(UNTIMED, in_pytorch=("conv2d",)))
    assert table(Turn(candidates=(partly, candidate(2, UNTIMED))), 80)[2][0].endswith(
        "the one that leaves the least to PyTorch is kept"
    )
    assert len(table(Turn(candidates=(candidate(1, UNTIMED), candidate(2, WRONG))), 80)) == 2


def test_one_line_is_one() -> None:
    """Counted as people count."""
    rows = Rows()
    rows.event(Started("server", 1, 1, "candidate 1"))
    rows.event(Wrote("code", "x\n", 1))
    assert rows.live() == ["candidate 1: writing · 1 line"]


def test_the_status_tells_how_much_of_the_budget_is_over() -> None:
    """Beside the time that ran, the time that there is."""
    screen = Screen(90, 24)
    with Stream(screen.console(), "server", limit=600.0):
        time.sleep(0.3)
        assert any("server · 0:00 of 10:00 · Ctrl-C stops" in row for row in screen.rows())


def test_the_table_is_bounded_and_keeps_the_best() -> None:
    """Of hundreds of candidates the newest are listed, and the best wherever it was."""
    many = tuple(candidate(n, timed(0.1) if n == 3 else WRONG, repaired=("x",) * (n == 3)) for n in range(1, 101))
    told = table(Turn(candidates=many), 80)
    assert len(told) == LONGEST + 2 and max(len(text) for text, _ in told) <= 80
    assert told[0][0].startswith(" candidate 3 · repaired") and told[0][0].endswith("· best")
    assert told[-1][0] == f" and {100 - LONGEST - 1} more"


def shown(events: list[Event], *, prints_best: bool = True) -> Screen:
    """Watch the events on a screen."""
    screen = Screen(90, 40)
    with Watch(screen.console(), "server", "ansi", prints_best=prints_best) as watch:
        for event in events:
            watch.event(event)
        watch.conclude(watch.turn or Turn(candidates=watch.candidates))
    return screen


def test_several_candidates_leave_one_table() -> None:
    """Of the live rows nothing stays: the best one's code and a row for each candidate, once."""
    rows = [row for row in shown(four()).rows() if row]
    assert rows == [
        "kernel_4 = 1",
        " candidate 1    1:01  ✓ verified · 0.5 ms · 2.00× eager",
        " candidate 2    2:02  ✗ value_mismatch: all of it is wrong",
        " candidate 4    4:04  ✓ verified · 0.2 ms · 5.00× eager · best",
        " not judged: candidate 3 (repeats an earlier one)",
    ]
    assert "kernel_4 = 1" not in shown(four(), prints_best=False).rows()


def test_who_wrote_is_told_where_several_wrote() -> None:
    """Of one backend the name would be on every row."""
    both = (candidate(1, timed(0.5)), candidate(2, WRONG, backend="builtin"))
    assert [text[:24].strip() for text, _ in table(Turn(candidates=both), 80)] == [
        "candidate 1 · server", "candidate 2 · builtin",
    ]  # fmt: skip


def test_stopped_in_the_middle_leaves_what_was_judged() -> None:
    """Ctrl-C ends with the best so far and the same table."""
    rows = [row for row in shown(four()[:11]).rows() if row]
    assert rows[0] == "kernel_1 = 1" and rows[1].endswith("· best") and len(rows) == 3


def test_reasoning_is_folded() -> None:
    """While it comes its last lines are seen; one row stays, and the whole is kept to be shown."""
    thoughts = Thoughts()
    assert thoughts.add("first\nsecond\n\nthird\nfour") == ["second", "third", "four"]
    assert thoughts.fold().endswith("· 4 words · /show reasoning") and thoughts.fold() == ""
    events: list[Event] = [
        Started("server", 1, 1),
        Wrote("reasoning", "secret\nplan "),
        Wrote("code", "x = 1\n"),
        CandidateDone(1, "x = 1\n"),
    ]
    rows = [row for row in shown(events).rows() if row]
    assert rows == ["thought for 0 s · 2 words · /show reasoning", "x = 1"]


def test_reasoning_is_not_in_what_is_sent_back() -> None:
    """The kernel that a later request quotes holds nothing of it."""
    splitter = Splitter()
    said = list(splitter.feed("<think>secret</think>```python\nclass ModelNew: 1\n```\n")) + list(splitter.finish())
    assert "secret" not in next(chunk.text for chunk in said if chunk.kind == "final")


def test_what_is_not_judged_yet_is_remembered() -> None:
    """Of several candidates each one's part is known until its verdict is there: Ctrl-C loses none."""
    with Watch(Screen().console(), "server", "ansi") as watch:
        for event in four()[:9]:
            watch.event(event)
        assert {number: draft.kernel for number, draft in watch.drafts.items() if draft.kernel} == {
            1: "kernel_1 = 1\n", 2: "a = 1\nb = 2\n",
        }  # fmt: skip
        assert watch.drafts[1].reasoning == "let me see "
        watch.event(VerdictDone(1, candidate(1, WRONG), best=False))
    assert 1 not in watch.drafts and watch.candidates


def test_an_answer_that_begins_anew_forgets_what_it_said() -> None:
    """A thought that turned out to be one is no part of the kernel."""
    draft = Draft()
    for kind, text in (("code", "x = 1\n"), ("prose", "so"), ("again", ""), ("reasoning", "hm"), ("code", "y = 2\n")):
        draft.take(kind, text)
    assert (draft.kernel, draft.prose, draft.reasoning) == ("y = 2\n", "", "hm")


def test_why_there_are_no_more_is_told() -> None:
    """Below the table: who was not judged, and why the loop ended; a reason is said once, and in the width there is."""
    rows = Rows()
    for event in (Dropped(2, "repeats an earlier one"), Dropped(5, "repeats an earlier one"), Dropped(6, "it is down")):
        rows.event(event)
    assert rows.beside(80) == [
        " not judged: candidates 2 and 5 (repeats an earlier one)", " not judged: candidate 6 (it is down)",
    ]  # fmt: skip
    rows.event(Ended("it is down"))
    assert len(rows.beside(80)) == 2
    rows.event(Ended("the time budget ended"))
    assert rows.beside(80)[2] == " no more: the time budget ended" and rows.beside(20)[2] == " no more: the time …"
