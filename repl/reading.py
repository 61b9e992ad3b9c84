"""What the text at the prompt is, and what Enter would do with it. No terminal, and nothing is executed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from repl.dropped import dropped
from repl.foreign import one_line
from verifier.problem import NotAProblem, Problem

Arrival = Literal["typed", "streaming", "pasted"]
"""How the text came: by hand, in a burst of keys that may not have ended, or whole (a paste, history, the editor)."""

Action = Literal["run", "convert", "refuse", "newline"]

GAP = 0.05
"""Seconds without a key that end a burst: hands are slower, and the packets of one raw paste come closer together."""

BARE = {"exit": "/quit", "quit": "/quit", "exit()": "/quit", "quit()": "/quit", "help": "/help", "?": "/help"}
"""Words that are no command and no module, and whose meaning is plain."""

UNFINISHED = frozenset({"empty", "truncated"})
"""What more text can mend: Enter goes on, however the text came."""


@dataclass
class Arrivals:
    """Tells a paste from typing, also where the terminal does not bracket a paste."""

    whole: str | None = None
    """The text as it was pasted, recalled or edited elsewhere; None once a key was typed into it."""
    burst: bool = False
    last: float = field(default_factory=time.monotonic)

    def of(self, text: str) -> Arrival:
        """Say how this text came."""
        if text != self.whole:
            return "typed"
        return "streaming" if self.burst and time.monotonic() - self.last < GAP else "pasted"

    def inserted(self, text: str) -> None:
        """Take note of text after a key: within a burst the key belongs to the paste."""
        now = time.monotonic()
        if self.burst and now - self.last < GAP:
            self.whole, self.last = text, now
        else:
            self.burst = False

    def flooded(self, text: str) -> None:
        """Take note of a line end with more input waiting behind it: a raw paste."""
        self.whole, self.burst, self.last = text, True, time.monotonic()

    def settled(self, text: str) -> None:
        """Take note of a text that came as a whole."""
        self.whole, self.burst = text, False


@dataclass(frozen=True)
class Reading:
    """A text read as a command, as a problem, or as neither and why."""

    command: bool = False
    problem: Problem | None = None
    fault: NotAProblem | None = None


@lru_cache(maxsize=4)
def read(text: str) -> Reading:
    """Read the text; cached, because the toolbar asks after every key."""
    if is_command(text):
        return Reading(command=True)
    try:
        return Reading(problem=Problem.parse(text))
    except NotAProblem as fault:
        return Reading(fault=fault)


def is_command(text: str) -> bool:
    """Tell a command from a paste: one line that begins with a slash, or a word that people try in every prompt."""
    return text.strip() in BARE or (text.startswith("/") and "\n" not in text.strip() and dropped(text) is None)


def goes_at_once(text: str) -> bool:
    """Tell a command, or a file's name, from what may go on: no paste begins so."""
    return is_command(text) or dropped(text) is not None


def on_enter(text: str, arrival: Arrival) -> Action:
    """Decide what Enter does: a complete problem goes, if it came whole or an empty line ends it."""
    if dropped(text):
        return "convert"
    reading = read(text)
    if reading.command:
        return "run"
    if reading.problem:
        return "convert" if arrival != "typed" or ends_blank(text) else "newline"
    # A broken paste is answered with its fault; half a burst, or half a typed module, is not.
    fault = reading.fault
    broken = arrival == "pasted" and fault is not None and fault.code not in UNFINISHED
    return "refuse" if broken and text.strip() else "newline"


def ends_blank(text: str) -> bool:
    """Tell whether the last line is empty, so that Enter on it adds nothing."""
    return "\n" in text and not text.rpartition("\n")[2].strip()


def toolbar(text: str, arrival: Arrival, idle: str) -> tuple[str, str]:
    """Return the toolbar's left and right words: what the text is, and what Enter does."""
    if not text.strip():
        return idle, "/help"
    if file := dropped(text):
        return f"the file {one_line(file.name)}", "Enter converts"
    reading = read(text)
    action = on_enter(text, arrival)
    if reading.command:
        return text.strip(), "Enter runs it"
    if reading.problem:
        return _summary(reading.problem), "Enter converts" if action == "convert" else "Enter twice converts"
    right = "Enter tells more" if action == "refuse" else "Enter: new line · Esc Enter: send"
    return _fault(reading.fault), right


def folded(text: str) -> str:
    """Return the one row that stands for a long paste."""
    problem = read(text).problem
    name = f"{problem.entry}(nn.Module) · " if problem else ""
    return f"{name}{_lines(text)}"


def _summary(problem: Problem) -> str:
    forward = ", ".join(problem.forward_args)
    return f"class {problem.entry}(nn.Module) · forward({forward}) · {_lines(problem.source)}"


def _lines(text: str) -> str:
    count = len(text.splitlines())
    return "1 line" if count == 1 else f"{count} lines"


def _fault(fault: NotAProblem | None) -> str:
    if fault is None:
        return ""
    where = f"line {fault.line}: " if fault.line else ""
    return where + one_line(fault.message)
