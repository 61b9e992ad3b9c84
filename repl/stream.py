"""Text that arrives piece by piece: settled lines go to the scrollback once, only the unfinished line is live.

At most two rows are ever repainted (the tail and a status row); without a terminal there are none.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from repl.foreign import visible
from repl.highlight import ANSI, Highlighter

FPS = 10
TAIL_COLUMNS = 48
"""A live row wider than a window that is being narrowed would leave a remnant behind; these fit 50 columns."""

PACE, PACE_LIMIT = 0.002, 0.2
"""Seconds per line, and in total, by which a kernel that arrives at once is slowed to be seen as written."""

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def console(*, stderr: bool = False, plain: bool = False) -> Console:
    """Return a console that never interprets what it prints."""
    return Console(
        stderr=stderr,
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=True,
        color_system=None if plain else "auto",
        force_terminal=False if plain else None,
    )


class Stream:
    """Shows code as it is written and what is going on, in append-only fashion."""

    def __init__(
        self, console: Console, label: str = "", theme: str = ANSI, *, live: bool = True, limit: float | None = None
    ) -> None:
        self._console, self._label, self._theme, self._limit = console, label, theme, limit
        self._highlight = Highlighter(theme)
        self._tail = ""
        self._aside: list[str] = []
        self._style: str | None = None
        self._lines = 0
        self._paced = 0.0
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False,
            get_renderable=self._rows,
        )  # fmt: skip
        self.live = live and console.is_terminal and not console.is_dumb_terminal
        """True when there are rows that change."""

    def __enter__(self) -> Stream:
        if self.live:
            self._live.start(refresh=True)
            # rich's own refresh thread can repaint between the rendering and the writing of a line, which leaves
            # a row behind; with one lock around both it cannot.
            threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        with self._lock:
            tail, self._tail, self._label, self._aside = self._tail, "", "", []
            if self.live:
                self._live.stop()
        if tail:
            self._print([tail])

    def write(self, piece: str, style: str | None = None) -> None:
        """Take the next piece: of code, or of other text with a style of its own."""
        if style != self._style:
            self._end_line()
            self._style = style
        *lines, tail = (self._tail + piece).split("\n")
        with self._lock:
            self._tail = tail
            self._lines += len(lines)
        if self.live:
            for line in lines:
                self._print([line])
                self._wait()
        elif lines:
            self._print(lines)

    def end_file(self) -> None:
        """Finish the unfinished line; the next piece begins another file."""
        self._end_line()
        self._highlight = Highlighter(self._theme)
        self._lines = 0

    def status(self, label: str, *, restart: bool = False) -> None:
        """Say what is being waited for, counting the seconds anew if asked."""
        with self._lock:
            self._label = label
            self._began = time.monotonic() if restart else self._began

    def aside(self, lines: list[str]) -> None:
        """Show these rows dimmed above the status until others replace them; they leave no trace."""
        with self._lock:
            self._aside = lines

    def say(self, text: RenderableType, style: str = "") -> None:
        """Print a settled row above the live ones."""
        with self._lock:
            self._console.print(text, style=style or None, soft_wrap=True)

    def _end_line(self) -> None:
        if self._tail:
            self.write("\n", self._style)

    def _print(self, lines: list[str]) -> None:
        safe = [visible(line.rstrip("\r")) for line in lines]
        if self._style is None:
            self.say(Text("\n").join(map(self._highlight, safe)))
        else:
            self.say("\n".join(safe), self._style)

    def _wait(self) -> None:
        if self._paced < PACE_LIMIT:
            self._paced += PACE
            time.sleep(PACE)

    def _tick(self) -> None:
        while not self._over.wait(1 / FPS):
            with self._lock:
                if not self._over.is_set():
                    self._live.refresh()

    def _rows(self) -> RenderableType:
        """The live rows; called with the lock held."""
        rows = []
        if self._tail:
            rows.append(self._row(_end_of(visible(self._tail)), ""))
        rows += [self._row(visible(line), "dim") for line in self._aside]
        if self._label:
            rows.append(self._row(self._status(), "dim"))
        return Group(*rows) if rows else Text("")

    def _row(self, text: str, style: str) -> Text:
        row = Text(text, style=style, no_wrap=True)
        row.truncate(min(TAIL_COLUMNS, self._console.width - 1), overflow="ellipsis")
        return row

    def _status(self) -> str:
        seconds = time.monotonic() - self._began
        lines = f" · {self._lines} lines" if self._lines else ""
        clock = f"{_minutes(seconds)} of {_minutes(self._limit)}" if self._limit else f"{seconds:.0f} s"
        rest = f" · {clock}{lines} · Ctrl-C stops"
        return f"{SPINNER[int(seconds * FPS) % len(SPINNER)]} {self._label[: TAIL_COLUMNS - 2 - len(rest)]}{rest}"


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _end_of(tail: str) -> str:
    """The end of an unfinished line, where the writing is."""
    if cell_len(tail) <= TAIL_COLUMNS:
        return tail
    end = tail[-TAIL_COLUMNS:]
    while cell_len(end) >= TAIL_COLUMNS:
        end = end[1:]
    return "…" + end
