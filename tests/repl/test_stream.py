"""Streaming: every line is in the scrollback exactly once, whatever happens meanwhile."""

from __future__ import annotations

import io
import random
import threading
import time

import pytest
from rich.console import Console

from repl.stream import Stream, console
from tests.repl.screen import Screen, unwrapped


def _line(number: int) -> str:
    if number % 7 == 0:
        return "" if number % 2 else f'    """Docs of {number} [/bold] :x:'
    wide = "  # [red]" + "x" * 60 if number % 9 == 0 else ""
    return f"    value_{number:03} = tl.load(x_ptr + offsets[{number}], mask=mask, other=0.0){wide}"


SOURCE = "".join(_line(number) + "\n" for number in range(200))


def pieces(text: str, seed: int = 0) -> list[str]:
    """Cut a text as a model's tokens cut it."""
    chance, found = random.Random(seed), []
    while text:
        size = chance.randint(1, 12)
        found.append(text[:size])
        text = text[size:]
    return found


def shown(screen: Screen, text: str) -> Screen:
    """Stream a text into a screen, with a status row under it."""
    with Stream(screen.console(), "builtin") as stream:
        for number, piece in enumerate(pieces(text)):
            stream.write(piece)
            if number % 50 == 0:
                with stream._lock:
                    stream._live.refresh()
    return screen


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (60, 10)])
def test_every_line_once(columns: int, rows: int) -> None:
    """200 lines are in scrollback and screen once, in order, unchanged, at any width."""
    screen = shown(Screen(columns, rows), SOURCE)
    # A row that fills the screen exactly cannot be told from a wrapped one, so the lines are compared unbroken.
    assert unwrapped(screen.rows(), columns).rstrip("\n") == SOURCE.rstrip("\n")


def test_nothing_but_the_code_stays() -> None:
    """No status row, no trailing blank and no frame is left behind, and the cursor is shown again."""
    screen = shown(Screen(200, 24), SOURCE)
    assert screen.rows() == [line.rstrip() for line in SOURCE.splitlines()][: len(screen.rows())]
    assert screen.written.rindex("\x1b[?25h") > screen.written.rindex("\x1b[?25l")
    assert "\x1b[48" not in screen.written


def test_at_most_two_rows_are_live() -> None:
    """The cursor never goes up by more than the two live rows."""
    screen = shown(Screen(), SOURCE)
    assert "\x1b[2A" not in screen.written
    assert "\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[1A" not in screen.written


@pytest.mark.parametrize("reflow", [True, False])
@pytest.mark.parametrize("moment", [3, 150, 151, 152, 400])
def test_every_line_once_after_a_resize(reflow: bool, moment: int) -> None:
    """A window that becomes 50 by 12 in the middle of the stream loses, doubles and mangles nothing."""
    screen = Screen(120, 40)
    drawn_on = screen.console()
    text = "".join(f"    line_{n} = acc[mask] + {n}  # of the kernel\n" for n in range(100))
    with Stream(drawn_on, "builtin") as stream:
        for number, piece in enumerate(pieces(text)):
            if number == moment:
                with stream._lock:
                    stream._live.refresh()
                    screen.resize(50, 12, reflow=reflow)
                    drawn_on.width, drawn_on.height = 50, 12
            stream.write(piece)
    assert screen.rows() == text.splitlines()


def test_live_rows_fit_a_narrow_window() -> None:
    """No live row is wider than fifty columns, so that narrowing a window leaves no remnant."""
    screen = Screen(120, 40)
    with Stream(screen.console(), "a backend with a very long name that says a lot") as stream:
        stream.write("    " + "long_name " * 20)
        with stream._lock:
            stream._live.refresh()
        live = [row.rstrip() for row in screen.screen.display if row.strip()]
    assert len(live) == 2
    assert max(map(len, live)) <= 50
    assert live[1].endswith("Ctrl-C stops")


def test_wide_characters() -> None:
    """Chinese, Japanese and Korean text streams intact."""
    text = "".join(f"# 第{n}行：张量 {n} を 계산한다\n" for n in range(60))
    screen = shown(Screen(80, 24), text)
    assert [row.replace(" ", "") for row in screen.rows()] == [line.replace(" ", "") for line in text.splitlines()]


def test_control_characters_are_written_out() -> None:
    """An escape sequence in a kernel is shown, not obeyed."""
    screen = shown(Screen(), "x = 1  # \x1b[2J\x07\rgone\n")
    assert screen.rows() == ["x = 1  # \\x1b[2J\\x07\\x0dgone"]


def test_the_last_line_needs_no_newline() -> None:
    """An unfinished last line is settled at the end."""
    assert shown(Screen(), "a = 1\nb = 2").rows() == ["a = 1", "b = 2"]


def test_an_exception_settles_the_tail() -> None:
    """What was written when a stream dies stays, and the live rows go."""
    screen = Screen()
    with pytest.raises(RuntimeError), Stream(screen.console(), "builtin") as stream:
        stream.write("a = 1\nb =")
        raise RuntimeError
    assert screen.rows() == ["a = 1", "b ="]


def test_printing_from_the_ticker_leaves_nothing() -> None:
    """Repaints that come between the lines leave no row behind."""
    screen = Screen(80, 24)
    with Stream(screen.console(), "builtin") as stream:
        stop = threading.Event()

        def repaint() -> None:
            while not stop.is_set():
                with stream._lock:
                    stream._live.refresh()

        painter = threading.Thread(target=repaint)
        painter.start()
        for number in range(60):
            stream.write(f"line {number}\nunfinished")
            stream.write(" business\n")
        stop.set()
        painter.join()
    assert len(screen.rows()) == 120
    assert screen.rows()[::2] == [f"line {number}" for number in range(60)]


def test_no_terminal_no_escapes() -> None:
    """Into a pipe go the bare lines and nothing else."""
    file = io.StringIO()
    with Stream(Console(file=file, markup=False, emoji=False, highlight=False), "builtin") as stream:
        stream.write("a = x[mask]\nb = 2\n")
        time.sleep(0.2)
    assert file.getvalue() == "a = x[mask]\nb = 2\n"


def test_plain_console_has_no_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    """The plain console writes markup as it is and no escape."""
    console(plain=True).print("k[idx] :x: [bold]b[/bold]")
    assert capsys.readouterr().out == "k[idx] :x: [bold]b[/bold]\n"


def test_streaming_costs_little() -> None:
    """300 lines in pieces of a token cost less than a second of processor time."""
    text = SOURCE + SOURCE[: len(SOURCE) // 2]
    file = io.StringIO()
    began = time.process_time()
    with Stream(Console(file=file, force_terminal=True, width=120, height=40, _environ={}), "builtin") as stream:
        for piece in pieces(text):
            stream.write(piece)
    assert time.process_time() - began < 1.0
    assert len(file.getvalue()) < 20 * len(text)
