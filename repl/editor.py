"""The prompt: keys, when a paste is complete, toolbar, completion. prompt_toolkit lives here and in keyboard.py."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory, ThreadedHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.lexers import DynamicLexer, Lexer, PygmentsLexer
from prompt_toolkit.output import Output
from prompt_toolkit.renderer import CPR_Support
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from repl.keyboard import Keyboard
from repl.reading import GAP, Arrival, Arrivals, goes_at_once, on_enter, toolbar

PROMPT = "› "
FOLD_LINES = 30
REMEMBERED = 200_000
"""Characters of the longest text in the history file, which every later session reads whole."""

UNANSWERED = 0.9
"""A prompt ends with waiting up to 1 s for the terminal to say where its cursor is; in vain once is enough."""

Complete = Callable[[str], Iterable[tuple[str, str, str]]]
"""Words for the text before the cursor: (the word to insert, what it replaces, what it is)."""


class Editor:
    """Reads one submission after another."""

    def __init__(
        self,
        *,
        history: Path | None = None,
        complete: Complete | None = None,
        theme: list[tuple[str, str]] | None = None,
        idle: str = "paste an nn.Module",
        ready: Callable[[], None] = lambda: None,
        typed: str = "",
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._idle = idle
        self._notice = ""
        self._arrivals = Arrivals()
        self._sent = time.monotonic()
        self.folds = False
        """Whether the last submission was wiped from the screen, to be shown as one row."""
        self._lexer: Lexer | None = None
        self._ready: Callable[[], None] | None = ready
        self._session: PromptSession[str] = PromptSession(
            message=PROMPT,
            multiline=True,
            prompt_continuation="  ",
            placeholder=lambda: [("class:placeholder", "" if get_app().is_done else "paste an nn.Module")],
            bottom_toolbar=self._toolbar,
            history=_history(history),
            completer=_Words(complete) if complete else None,
            complete_while_typing=Condition(lambda: self._buffer.text.startswith("/")),
            key_bindings=self._keys(),
            lexer=DynamicLexer(self._code_lexer),
            style=Style([*(theme or []), *_LOOK]),
            include_default_pygments_style=False,
            enable_open_in_editor=False,  # its key would submit what the editor leaves; ours does not
            tempfile_suffix=".py",
            input=input,
            output=output,
        )
        # A terminal that does not say where its cursor is gets no toolbar, and no warning either.
        self._session.app.renderer.cpr_not_supported_callback = None
        self._keyboard = Keyboard(self._session.input, typed)
        self._session.app.after_render += self._rendered
        self._session.app.key_processor.before_key_press += lambda _: setattr(self, "_notice", "")
        self._buffer.on_text_insert += lambda buffer: self._arrivals.inserted(buffer.text)

    @property
    def _buffer(self) -> Buffer:
        return self._session.default_buffer

    def read(self) -> str:
        """Return what the person submits; raise EOFError when they leave."""
        self._arrivals = Arrivals()
        self._session.app.erase_when_done = self.folds = False
        text = self._session.prompt()
        if time.monotonic() - self._sent > UNANSWERED:
            self._session.app.renderer.cpr_support = CPR_Support.NOT_SUPPORTED
        # A lone surrogate stands for a byte that was no UTF-8: nothing after the prompt could encode it.
        return text.encode("utf-8", "replace").decode("utf-8")

    def _rendered(self, _app: object) -> None:
        if self._ready:
            ready, self._ready = self._ready, None
            ready()
            from pygments.lexers.python import PythonLexer

            self._lexer = PygmentsLexer(PythonLexer)

    def _code_lexer(self) -> Lexer | None:
        return None if goes_at_once(self._buffer.text) else self._lexer

    def _arrival(self) -> Arrival:
        text = self._buffer.text
        recalled = bool(text) and text in self._session.history.get_strings()
        return "pasted" if recalled else self._arrivals.of(text)

    def _toolbar(self) -> StyleAndTextTuples:
        columns = self._session.output.get_size().columns
        left, right = toolbar(self._buffer.text, self._arrival(), self._idle)
        left = self._notice or left
        room = columns - get_cwidth(right) - 3
        left = _cut(left, max(room, 0))
        gap = max(columns - get_cwidth(left) - get_cwidth(right) - 2, 1)
        return [("", f" {left}{' ' * gap}"), ("class:action", right)]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        here = has_focus(DEFAULT_BUFFER)

        @keys.add("enter", filter=here)
        def _(event: KeyPressEvent) -> None:
            """Go if the text is complete; a line end inside a paste is only a line end."""
            buffer = event.current_buffer
            if goes_at_once(buffer.text):  # typed ahead
                self._submit(buffer)
            elif self._more_is_coming(event):
                buffer.newline(copy_margin=False)
            elif on_enter(buffer.text, self._arrival()) != "newline":
                self._submit(buffer)
            elif buffer.text.strip():
                buffer.newline(copy_margin=False)

        @keys.add("escape", "enter", filter=here)
        def _(event: KeyPressEvent) -> None:
            """Go, whatever the text is."""
            self._submit(event.current_buffer)

        @keys.add("c-j", filter=here)
        def _(event: KeyPressEvent) -> None:
            """Make a new line."""
            self._more_is_coming(event)
            event.current_buffer.newline(copy_margin=False)

        @keys.add(Keys.BracketedPaste, filter=here)
        def _(event: KeyPressEvent) -> None:
            """Insert a paste as one piece."""
            buffer = event.current_buffer
            buffer.insert_text(event.data.replace("\r\n", "\n").replace("\r", "\n"))
            if self._keyboard.unbracketed:
                self._arrivals.flooded(buffer.text)
            else:
                self._arrivals.settled(buffer.text)

        @keys.add("c-c", filter=here)
        @keys.add("<sigint>", filter=here)
        def _(event: KeyPressEvent) -> None:
            """Clear the text, which the history keeps; on an empty line say how to leave."""
            buffer = event.current_buffer
            if buffer.text.strip():
                buffer.reset(append_to_history=True)
            else:
                self._notice = "Ctrl-D leaves"

        @keys.add("c-x", "c-e", filter=here)
        def _(event: KeyPressEvent) -> None:
            """Edit the text in $EDITOR."""
            task = event.current_buffer.open_in_editor()
            task.add_done_callback(lambda _task: self._arrivals.settled(self._buffer.text))

        @keys.add("c-d", filter=here & Condition(lambda: not self._buffer.text.strip()))
        def _(event: KeyPressEvent) -> None:
            """Leave."""
            event.app.exit(exception=EOFError)

        return keys

    def _more_is_coming(self, event: KeyPressEvent) -> bool:
        """Tell whether this Enter is inside a paste: more input is waiting, or comes at once in a burst."""
        text = self._buffer.text
        in_burst = self._arrivals.of(text) == "streaming"
        if event.key_processor.input_queue or self._keyboard.more(GAP if in_burst else 0):
            self._arrivals.flooded(text + "\n")
            return True
        return False

    def _submit(self, buffer: Buffer) -> None:
        size = self._session.output.get_size()
        rows = sum(1 + get_cwidth(line) // max(size.columns - 2, 1) for line in buffer.text.split("\n"))
        self._session.app.erase_when_done = self.folds = rows > min(FOLD_LINES, size.rows - 3)
        drawn = self._session.app.renderer.last_rendered_screen
        if self.folds and drawn and drawn.height >= size.rows:
            # Erased from its first cell on, a full screen would be kept as history by tmux; from the second, not.
            self._session.output.write_raw("\x1b7\x1b[1;2H\x1b[1K\x1b[J\x1b8")
        self._sent = time.monotonic()
        buffer.validate_and_handle()


class _Words(Completer):
    """Completes slash commands; a paste has nothing to complete."""

    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Offer the words that fit the command before the cursor."""
        if document.text.startswith("/") and document.line_count == 1:
            for word, replaces, meaning in self._complete(document.text_before_cursor):
                yield Completion(word, start_position=-len(replaces), display_meta=meaning)


class _Kept(FileHistory):
    """A history file that may stop being writable without taking the prompt with it."""

    def store_string(self, string: str) -> None:
        """Write an entry; a full disk costs the entry and nothing else."""
        if len(string) > REMEMBERED:
            return
        with contextlib.suppress(OSError):
            super().store_string(string.encode("utf-8", "replace").decode("utf-8"))


def _history(path: Path | None) -> History:
    return ThreadedHistory(_Kept(str(path))) if path else InMemoryHistory()


def _cut(text: str, columns: int) -> str:
    if get_cwidth(text) <= columns:
        return text
    while text and get_cwidth(text) > columns - 1:
        text = text[:-1]
    return text + "…"


_LOOK = [
    ("bottom-toolbar", "noreverse"),
    ("bottom-toolbar.text", "ansibrightblack"),
    ("action", "bold"),
    ("placeholder", "ansibrightblack"),
]
