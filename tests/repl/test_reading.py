"""What Enter does with a text, and what the toolbar says about it."""

from __future__ import annotations

import pytest

from repl import reading
from repl.reading import Arrivals, folded, on_enter, read, toolbar
from tests.repl.modules import BROKEN, LONG, SMALL


def test_the_long_module_has_124_lines() -> None:
    """The shared long paste is as long as its name says."""
    assert len(LONG.splitlines()) == 124


def test_a_command_runs() -> None:
    """A line that begins with a slash is a command; a longer text is not."""
    assert on_enter("/help", "typed") == "run"
    assert not read("/help\nclass A: pass").command
    assert on_enter("exit", "typed") == on_enter("help", "typed") == "run"


@pytest.mark.parametrize("text", [SMALL, LONG])
def test_a_pasted_module_converts(text: str) -> None:
    """A complete module that came whole goes with one Enter."""
    assert on_enter(text, "pasted") == "convert"
    assert on_enter(text, "streaming") == "convert"


def test_a_typed_module_needs_an_empty_line() -> None:
    """A module typed by hand goes when an empty line ends it, not before."""
    assert on_enter(SMALL, "typed") == "newline"
    assert on_enter(SMALL + "\n", "typed") == "convert"
    assert on_enter(SMALL + "\n    ", "typed") == "convert"


@pytest.mark.parametrize("end", range(1, len(SMALL.splitlines()) - 8))
def test_a_beginning_is_not_submitted(end: int) -> None:
    """The lines before the class is complete never go, however they came."""
    beginning = "\n".join(SMALL.splitlines()[:end])
    assert on_enter(beginning + "\n", "typed") == "newline"
    assert on_enter(beginning, "streaming") == "newline"


def test_a_broken_paste_is_answered() -> None:
    """A paste with a syntax error is sent, to be told what is wrong; half of one, or a typed one, is not."""
    assert on_enter(BROKEN, "pasted") == "refuse"
    assert on_enter(BROKEN, "streaming") == "newline"
    assert on_enter(BROKEN, "typed") == "newline"
    assert on_enter("class Net(nn.Module):\n    def forward(self, x):\n        return (x", "pasted") == "newline"


@pytest.mark.parametrize("arrival", ["typed", "streaming", "pasted"])
def test_nothing_is_never_submitted(arrival: reading.Arrival) -> None:
    """Enter on an empty prompt does nothing."""
    assert on_enter("", arrival) == on_enter(" \n ", arrival) == "newline"


def test_toolbar_says_what_enter_does() -> None:
    """The toolbar names the module and what Enter will do with it."""
    assert toolbar("", "typed", "idle") == ("idle", "/help")
    assert toolbar("/show", "typed", "")[1] == "Enter runs it"
    assert toolbar(SMALL, "pasted", "") == ("class Net(nn.Module) · forward(x) · 15 lines", "Enter converts")
    assert toolbar(SMALL, "typed", "")[1] == "Enter twice converts"
    left, right = toolbar(BROKEN, "typed", "")
    assert left.startswith("line 7: ") and "new line" in right


def test_a_long_paste_has_a_one_row_name() -> None:
    """A folded paste is named by its class and its length."""
    assert folded(LONG) == "Long(nn.Module) · 124 lines"
    assert folded("x = 1\n" * 40) == "40 lines"


def test_arrivals_tell_typing_from_pasting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst is a paste while its keys follow closely; a key after a pause is typing."""
    now = [0.0]
    monkeypatch.setattr(reading.time, "monotonic", lambda: now[0])
    arrivals = Arrivals()
    arrivals.inserted("a")
    assert arrivals.of("a") == "typed"
    arrivals.flooded("a\n")
    arrivals.inserted("a\nb")
    assert arrivals.of("a\nb") == "streaming"
    now[0] = 1.0
    assert arrivals.of("a\nb") == "pasted"
    arrivals.inserted("a\nbc")
    assert arrivals.of("a\nbc") == "typed"
    arrivals.settled("whole")
    assert arrivals.of("whole") == "pasted"
