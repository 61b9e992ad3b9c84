"""What a one-shot run writes to stderr, drawn with the prompt's own stream and table."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from repl import report
from repl.arguments import Settings
from repl.events import CandidateDone, CheckDone, Event, Started, VerdictDone, Wrote
from repl.foreign import one_line
from repl.highlight import ANSI
from repl.stream import Stream, console
from repl.turn import Trouble, Turn
from verifier.problem import Problem


class Show:
    """The display of one run; a context manager, so that the terminal is restored whatever happens."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._console = console(stderr=True, plain=settings.plain)
        self._several = settings.options.candidates > 1 or settings.options.budget is not None
        self._open = ExitStack()
        self._stream: Stream | None = None

    def __enter__(self) -> Show:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def showed_the_kernel(self) -> bool:
        """True when stdout is the terminal on which the one kernel was streamed already."""
        return not self._several and self._console.is_terminal and bool(sys.stdout and sys.stdout.isatty())

    def problem(self, problem: Problem) -> None:
        """Tell what was repaired or guessed, and begin the live display."""
        for note in problem.notes:
            self._console.print(f"note: {one_line(note)}", style="dim")
        stream = Stream(self._console, problem.name, self._settings.theme or ANSI)
        self._stream = self._open.enter_context(stream)

    def event(self, event: Event) -> None:
        """Show one event."""
        if self._stream is None:
            return
        match event:
            case Started(backend, number, planned):
                self._stream.status(backend)
                if self._several:
                    self._stream.say(f"{backend} · candidate {number}" + (f" of {planned}" if planned else ""))
            case Wrote("code", text):
                self._stream.write(text)
            case Wrote("status" | "cut", text):
                self._stream.status(one_line(text))
            case CandidateDone():
                self._stream.end_file()
                self._stream.status("verifying")
            case CheckDone(check):
                self._stream.status(f"verifying · {one_line(check.name)}")
            case VerdictDone(number, candidate, best) if self._several:
                verdict = candidate.verdict
                told = verdict.outcome if verdict.passed else f"{verdict.code}: {one_line(verdict.message)}"
                self._stream.say(f"candidate {number}: {told}" + (" (best so far)" if best else ""))

    def result(self, turn: Turn) -> None:
        """End the live display and print the table, or the error, or both."""
        self._open.close()
        if turn.best:
            framed = self._console.is_terminal
            for row in report.table(turn.best.verdict, width=self._console.width, frame=framed):
                self._console.print(row)
        if turn.error:
            self.error(turn.error)

    def error(self, trouble: Trouble) -> None:
        """Print one clear message and what to do."""
        where = f", line {trouble.line}" if trouble.line else ""
        self._console.print(f"error [{trouble.code}{where}]: {one_line(trouble.message)}", style="red")
        if trouble.hint:
            self._console.print(f"  {one_line(trouble.hint)}")
