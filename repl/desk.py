"""What the person is working on: the last problem, kernel and verdict, and what can be done with them.

The verifier and the backend are opened once the prompt stands; neither runs pasted code in this process.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from repl import commands
from repl.arguments import Settings
from repl.dropped import dropped
from repl.events import Event
from repl.foreign import visible
from repl.reading import folded, is_command
from repl.session import Session
from repl.sources import Unreadable, read_text
from repl.terminal import Interrupts
from repl.turn import Candidate, Trouble, Turn, trouble_of
from verifier.problem import NotAProblem, Problem

if TYPE_CHECKING:
    from rich.console import Console

    from backends import Backend
    from repl.answer import Draft
    from verifier.desk import Verifier


class Parts(Protocol):
    """Opens what a session needs: the module `repl.parts`."""

    def open_verifier(self, settings: Settings) -> Verifier: ...
    def open_backend(self, settings: Settings, judge: Verifier) -> Backend: ...


class Desk:
    """Does what is asked and shows what comes of it; `close` ends the children."""

    def __init__(
        self, settings: Settings, interrupts: Interrupts, parts: Parts | None = None, *, plain: bool = False
    ) -> None:
        self.settings = settings
        self._parts = parts
        self.theme = settings.theme or "ansi"
        self.session = Session(warn=lambda text: self.say(text, "yellow"))
        self.problem: Problem | None = None
        self.turn: Turn | None = None
        self.kernel = ""
        self.trace = ""
        self.reasoning = ""
        """What the model thought before its last answer; shown when asked for, never sent back."""
        self.saved: set[Path] = set()
        """Files written by /save, which it may write again."""
        self._interrupts = interrupts
        self._plain = plain
        self._console: Console | None = None
        self._verifier: Verifier | None = None
        self._backend: Backend | None = None

    def warm(self) -> None:
        """Start the judge's process, so that it is ready when the first problem comes."""
        try:
            self._judge()
        except Exception:  # told when a problem needs it: now the prompt is on the screen, and nothing may be printed
            self.trace = traceback.format_exc()

    def take(self, text: str, *, folds: bool = False) -> None:
        """Run a command, or convert what was pasted or the file that was named."""
        if folds:
            self.say(f"› {folded(text)}")
        if is_command(text):
            commands.run(self, text)
        elif file := dropped(text):
            self._file(file)
        elif text.strip():
            self._paste(text)

    def convert(self, earlier: Sequence[Candidate] = (), instructions: str = "") -> None:
        """Write a kernel for the problem and judge it; `earlier` are attempts to learn from."""
        from repl.convert import convert

        def events(problem: Problem, judge: Verifier) -> Iterator[Event]:
            options = replace(self.settings.options, earlier=tuple(earlier), instructions=instructions)
            return convert(problem, self._writer(), judge, options)

        self._follow(events, self.settings.backend, self.settings.options.budget)

    def judge(self, kernel: str) -> None:
        """Judge a kernel for the problem."""
        from repl.convert import judge

        self._follow(lambda problem, judged_by: judge(problem, kernel, judged_by, self.settings.options), "verifying")

    def follow_words(self, words: Iterator[str]) -> None:
        """Show how far something is until it ends, or Ctrl-C ends it."""
        from repl.stream import Stream

        self._interrupts.forget()
        told = ""
        with Stream(self.console) as stream, contextlib.ExitStack() as open_:
            open_.callback(getattr(words, "close", lambda: None))
            while text := self._interrupts.pull(words):
                told = text
                stream.status(text)
        self.say(told)

    def new_turn(self) -> None:
        """Keep what follows beside what was, under the next number."""
        if self.problem:
            self.session.begin(self.problem.source)

    def choose(self, settings: Settings) -> None:
        """Work with another backend from now on; what cannot be opened changes nothing."""
        backend = self._opener().open_backend(settings, self._judge())
        if self._backend:
            self._backend.close()
        self.settings, self._backend = replace(self.settings, backend=settings.backend, model=settings.model), backend

    def say(self, text: str, style: str = "") -> None:
        """Print our own words, or foreign ones made safe."""
        self.console.print(visible(text), style=style or None, soft_wrap=True)

    def code(self, source: str) -> None:
        """Print code as it is, in colour."""
        from repl.stream import Stream

        with Stream(self.console, theme=self.theme, live=False) as stream:
            stream.write(source if source.endswith("\n") else source + "\n")

    def attempt(self, action: Callable[[], None]) -> None:
        """Do it; whatever goes wrong is told in one line and leaves the session as it was."""
        try:
            action()
        except KeyboardInterrupt:
            self.say("stopped", "yellow")
        except commands.Leave:
            raise
        except Exception as error:
            self.trace = traceback.format_exc()
            self.trouble(trouble_of(error) or _unexpected(error))

    def trouble(self, trouble: Trouble) -> None:
        """Tell of an error: its code, the line, what happened, and what to do."""
        from repl import report

        for row in report.trouble(trouble):
            self.console.print(row, soft_wrap=True)

    @property
    def console(self) -> Console:
        """The screen; made when first needed, because rich takes 0.1 s to import."""
        if self._console is None:
            from repl.stream import console

            self._console = console(plain=self._plain)
        return self._console

    def close(self) -> None:
        """End the backend and the verifier's processes."""
        for part in (self._backend, self._verifier):
            if part:
                part.close()

    def _file(self, file: Path) -> None:
        try:
            text = read_text(str(file))
        except Unreadable as fault:
            self.trouble(fault.trouble)
        else:
            self.say(f"  read {file}", "dim")
            self._paste(text)

    def _paste(self, text: str) -> None:
        self.session.begin(text)
        self.trace, self.turn, self.kernel, self.reasoning = "", None, "", ""
        try:
            self.problem = Problem.parse(text)
        except NotAProblem as fault:
            self.problem = None
            self._finish(Turn(error=trouble_of(fault)))
            return
        self.session.cleaned(text, self.problem.source)
        for note in self.problem.notes:
            self.say(f"  {note}", "dim")
        self.say("")
        self.convert()

    def _follow(
        self, start: Callable[[Problem, Verifier], Iterator[Event]], label: str, budget: float | None = None
    ) -> None:
        """Show a conversion to its end, or to Ctrl-C, and keep what came of it."""
        from repl.watch import Watch, follow

        problem = self.problem
        if problem is None:
            self.say("nothing was pasted yet", "yellow")
            return
        self._interrupts.forget()
        error: Trouble | None = None
        with Watch(self.console, label, self.theme, budget=budget) as watch:
            try:
                if follow(watch, lambda: start(problem, self._judge()), self._interrupts):
                    kept = "; what was written so far is kept" if watch.drafts or watch.candidates else ""
                    error = Trouble("interrupted", f"stopped{kept}")
            except Exception as fault:
                self.trace = traceback.format_exc()
                error = trouble_of(fault) or _unexpected(fault)
            except SystemExit:  # SIGTERM, or the terminal was closed
                self._keep(Turn(problem, watch.candidates), watch.drafts)
                raise
            turn = watch.turn or Turn(problem, watch.candidates, error)
            watch.conclude(turn)
        self._finish(turn, watch.drafts)

    def _finish(self, turn: Turn, drafts: Mapping[int, Draft] = MappingProxyType({})) -> None:
        from repl import report

        best = turn.best
        kernel = self._keep(turn, drafts)
        stays = bool(self.kernel and not kernel)  # nothing was written: the last kernel is still the one to speak of
        if not stays:
            self.turn, self.kernel = turn, kernel
        self.session.verdict(turn.to_dict())
        self.say("")
        if best:
            self.trace = best.verdict.trace or self.trace
        if turn.judged:
            for row in report.table(turn.judged, width=self.console.width, frame=self.console.is_terminal):
                self.console.print(row, soft_wrap=True)
        if turn.error:
            self.trouble(turn.error)
        if stays:
            self.say("  the last kernel stays", "dim")
        self.say("")

    def _keep(self, turn: Turn, drafts: Mapping[int, Draft]) -> str:
        """Keep all that was written in the turn; return its kernel: the best one's, or the longest unfinished one."""
        written = [(c.number, c.kernel, c.prose, c.reasoning) for c in turn.candidates]
        written += [(number, draft.kernel, draft.prose, draft.reasoning) for number, draft in drafts.items()]
        first = turn.best.number if turn.best else max(drafts, key=lambda n: len(drafts[n].kernel), default=0)
        shown = ""
        for number, kernel, prose, reasoning in written:
            if number == first and kernel.strip():
                shown = kernel
                self.session.kernel(kernel)
            else:
                self.session.aside(number, kernel, prose)
            if number == first and reasoning.strip():
                self.reasoning = reasoning
                self.session.reasoning(reasoning)
        return shown

    def _writer(self) -> Backend:
        if self._backend is None:
            self._backend = self._opener().open_backend(self.settings, self._judge())
        return self._backend

    def _judge(self) -> Verifier:
        if self._verifier is None:
            self._verifier = self._opener().open_verifier(self.settings)
        return self._verifier

    def _opener(self) -> Parts:
        if self._parts is None:
            from repl import parts

            self._parts = parts
        return self._parts


def _unexpected(error: Exception) -> Trouble:
    message = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return Trouble("internal_error", message, "this is a fault of kernelllm; /show error prints where")
