"""What a one-shot run writes to stderr while it works, drawn with the prompt's own stream and table."""

from __future__ import annotations

import sys

from repl.arguments import Settings
from repl.events import CandidateDone, CheckDone, Event, Finished, Started, VerdictDone, Wrote
from repl.turn import Turn


class Show:
    """The display of one run; a context manager so that the terminal is restored whatever happens."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.printed_kernel = False

    def __enter__(self) -> Show:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stderr.flush()

    def event(self, event: Event) -> None:
        match event:
            case Started(backend, number, planned) if planned != 1:
                self._say(f"{backend} · candidate {number}" + (f" of {planned}" if planned else ""))
            case Wrote("status" | "cut", text):
                self._say(text)
            case Wrote("code" | "prose" | "reasoning", text):
                sys.stderr.write(text)
            case CandidateDone():
                self._say("")
            case CheckDone(check):
                self._say(f"{check.outcome:5} {check.name}  {check.detail}")
            case VerdictDone(_, candidate, _):
                self._say(f"{candidate.verdict.outcome} {candidate.verdict.code} {candidate.verdict.message}")
            case Finished():
                pass

    def turn(self, turn: Turn) -> None:
        if turn.error:
            where = f" (line {turn.error.line})" if turn.error.line else ""
            self._say(f"error [{turn.error.code}]{where}: {turn.error.message}")
            if turn.error.hint:
                self._say(f"  {turn.error.hint}")

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
