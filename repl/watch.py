"""Shows the events of one conversion as they come, and remembers what was written so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from repl.answer import Draft
from repl.events import CandidateDone, CheckDone, Dropped, Event, Finished, Started, VerdictDone, Wrote
from repl.foreign import one_line
from repl.rows import MARKS, Rows, table
from repl.stream import Stream
from repl.terminal import Interrupts
from repl.thoughts import Thoughts

if TYPE_CHECKING:
    from rich.console import Console

    from repl.turn import Candidate, Turn


class Watch:
    """The display of one conversion; a context manager, so that the live rows go whatever happens.

    One candidate is shown as it is written. Several have a live row each, and leave one table; `prints_best` tells
    that the code of the best is then printed here.
    """

    def __init__(
        self, console: Console, label: str, theme: str, *, prints_best: bool = True, budget: float | None = None
    ) -> None:
        self._stream = Stream(console, label, theme, limit=budget)
        self._console, self._label, self._prints_best = console, label, prints_best
        self._single = True
        self._rows = Rows()
        self._thoughts = Thoughts()
        self.drafts: dict[int, Draft] = {}
        """What was written of each candidate that is not judged yet."""
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
        if isinstance(event, Started):
            self._single = self._single and event.planned == 1
        if isinstance(event, Wrote | CandidateDone):
            self._note(event)
        if isinstance(event, VerdictDone):
            self.candidates += (event.candidate,)
            self.drafts.pop(event.number, None)
        if isinstance(event, Finished):
            self.turn = event.turn
        self._rows.event(event)
        if self._single:
            self._one(event)
        else:
            self._many(event)

    def _one(self, event: Event) -> None:
        match event:
            case Started(backend):
                self._label = backend
                self._stream.status(backend, restart=True)
            case Wrote("reasoning", text):
                self._stream.aside(self._thoughts.add(text))
            case Wrote("again"):
                self._fold()
                self._stream.end_file()
            case Wrote("code", text):
                self._fold()
                self._stream.status(self._label)
                self._stream.write(text)
            case Wrote("prose", text):
                self._fold()
                self._stream.write(text, style="dim")
            case Wrote("repaired", text):
                self._stream.end_file()
                self._stream.say(f"repaired: {one_line(text)}", style="yellow")
            case Wrote("cut", text):
                self._fold()
                self._stream.end_file()
                self._stream.say(f"the answer was cut off: {one_line(text)}", style="yellow")
            case Wrote(_, text):
                self._stream.status(one_line(text))
            case CandidateDone():
                self._fold()
                self._stream.end_file()
                self._stream.status("verifying", restart=True)
            case CheckDone(check):
                self._stream.status(f"verifying · {one_line(check.name)} {MARKS[check.outcome]}")
            case _:
                pass

    def _many(self, event: Event) -> None:
        match event:
            case Started(backend):
                self._stream.status(backend)
            case VerdictDone(number) | Dropped(number) if not self._stream.live:
                self._stream.say(self._rows.told(number), style="dim")
            case _:
                pass
        self._stream.aside(self._rows.live())

    def conclude(self, turn: Turn) -> None:
        """Replace the live rows of several candidates by one table, and by the best one's code where it is wanted."""
        self._stream.aside([])
        if self._single:
            return
        self._stream.status("")
        if self._prints_best and turn.best and turn.best.kernel:
            self._stream.write(turn.best.kernel.rstrip("\n") + "\n")
            self._stream.end_file()
            self._stream.say("")
        width = min(self._console.width, 100)
        for text, style in [*table(turn, width), *((row, "dim") for row in self._rows.beside(width))]:
            self._stream.say(text, style=style)

    def _note(self, event: Wrote | CandidateDone) -> None:
        draft = self.drafts.setdefault(event.number, Draft())
        if isinstance(event, CandidateDone):
            draft.take("final", event.kernel)
        else:
            draft.take(event.kind, event.text)

    def _fold(self) -> None:
        """Leave one row of what the model thought."""
        if told := self._thoughts.fold():
            self._stream.aside([])
            self._stream.say(told, style="dim")


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
