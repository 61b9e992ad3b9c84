"""What a one-shot run writes to stderr, drawn as the prompt draws it."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace

from repl import report
from repl.arguments import Settings
from repl.events import Event
from repl.foreign import one_line
from repl.highlight import ANSI
from repl.stream import console
from repl.turn import Turn
from repl.watch import Watch
from verifier.problem import Problem


class Show:
    """The display of one run; a context manager, so that the terminal is restored whatever happens."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._console = console(stderr=True, plain=settings.plain)
        self._open = ExitStack()
        self._watch: Watch | None = None

    def __enter__(self) -> Show:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def showed_the_kernel(self) -> bool:
        """True when stdout is the terminal on which the one kernel was streamed already."""
        options = self._settings.options
        single = options.candidates == 1 and options.budget is None
        return single and self._console.is_terminal and bool(sys.stdout and sys.stdout.isatty())

    def problem(self, problem: Problem) -> None:
        """Tell what was repaired or guessed, and begin the live display."""
        for note in problem.notes:
            self._console.print(f"note: {one_line(note)}", style="dim")
        theme = self._settings.theme or ANSI
        budget = self._settings.options.budget
        watch = Watch(self._console, self._settings.backend, theme, prints_best=False, budget=budget)
        self._watch = self._open.enter_context(watch)

    def event(self, event: Event) -> None:
        """Show one event."""
        if self._watch:
            self._watch.event(event)

    def result(self, turn: Turn) -> None:
        """End the live display and print the table, or the error, or both."""
        if self._watch:
            self._watch.conclude(turn)
        self._open.close()
        rows = []
        if turn.judged:
            verdict = replace(turn.judged, trace="")  # no later command could show it
            rows += report.table(verdict, width=self._console.width, frame=self._console.is_terminal)
        if turn.error:
            rows += report.trouble(turn.error)
        for row in rows:
            self._console.print(row, soft_wrap=True)
