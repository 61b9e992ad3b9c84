"""Shows the events of one conversion as they come, and remembers what was written so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from repl.events import CandidateDone, CheckDone, Event, Finished, Started, VerdictDone, Wrote
from repl.foreign import one_line
from repl.stream import Stream
from repl.terminal import Interrupts

if TYPE_CHECKING:
    from rich.console import Console

    from repl.turn import Candidate, Turn
    from verifier.verdict import Verdict


_MARKS = {"pass": "✓", "fail": "✗", "warn": "!", "skip": "–"}


class Watch:
    """The display of one conversion; a context manager, so that the live rows go whatever happens."""

    def __init__(self, console: Console, label: str, theme: str) -> None:
        self._stream = Stream(console, label, theme)
        self._label = label
        self._planned: int | None = 1
        self.kernel = ""
        """The code of the candidate being written or judged, whole or not."""
        self.candidates: tuple[Candidate, ...] = ()
        """The candidates that were judged so far."""
        self.turn: Turn | None = None

    def __enter__(self) -> Watch:
        self._stream.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.__exit__(kind, error, trace)

    def event(self, event: Event) -> None:
        """Show what happened."""
        match event:
            case Started(backend, number, planned):
                self._start(backend, number, planned)
            case Wrote("code", text):
                self.kernel += text
                self._stream.status(self._label)
                self._stream.write(text)
            case Wrote("prose" | "reasoning", text):
                self._stream.write(text, style="dim")
            case Wrote("cut", text):
                self._stream.end_file()
                self._stream.say(f"the answer was cut off: {one_line(text)}", style="yellow")
            case Wrote(_, text):
                self._stream.status(one_line(text))
            case CandidateDone(_, kernel):
                self._stream.end_file()
                self.kernel = kernel
                self._stream.status("verifying", restart=True)
            case CheckDone(check):
                self._stream.status(f"verifying · {one_line(check.name)} {_MARKS[check.outcome]}")
            case VerdictDone(number, candidate, best):
                self.candidates += (candidate,)
                if self._planned != 1:
                    self._stream.say(_outcome(number, candidate.verdict, best), style="dim")
            case Finished(turn):
                self.turn = turn

    def _start(self, backend: str, number: int, planned: int | None) -> None:
        self._planned = planned
        self._label = backend
        self._stream.end_file()
        self._stream.status(backend, restart=True)
        self.kernel = ""
        if planned != 1:
            of = f" of {planned}" if planned else ""
            self._stream.say(f"{backend} · candidate {number}{of}", style="dim")


def follow(watch: Watch, start: Callable[[], Iterator[Event]], interrupts: Interrupts) -> bool:
    """Show all events, and return whether Ctrl-C ended them; the source is closed in every case."""
    events: Iterator[Event] = iter(())
    try:
        events = start()
        while event := interrupts.pull(events):
            watch.event(event)
    except KeyboardInterrupt:
        return True
    finally:
        close = getattr(events, "close", None)
        if close:
            with interrupts.armed():  # a source that hangs while it closes is left to itself by a second Ctrl-C
                close()
    return False


def _outcome(number: int, verdict: Verdict, best: bool) -> str:
    said = "verified" if verdict.passed else one_line(f"{verdict.code}: {verdict.message}")
    return f"candidate {number}: {said}" + (" · the best so far" if best else "")
