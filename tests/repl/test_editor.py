"""Keys at the prompt, through a real prompt_toolkit session fed from a pipe."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from repl import commands
from repl import editor as editing
from repl.editor import Editor
from tests.repl.modules import BROKEN, LONG, SMALL

Read = Callable[[str], str]


@pytest.fixture
def pipe() -> Iterator[PipeInput]:
    """A pipe that stands for the keyboard."""
    with create_pipe_input() as source:
        yield source


@pytest.fixture
def editor(pipe: PipeInput) -> Editor:
    """An editor that reads the pipe."""
    return Editor(input=pipe, output=DummyOutput(), complete=commands.complete)


@pytest.fixture
def read(pipe: PipeInput, editor: Editor) -> Read:
    """Send keys and return what is submitted; what is not used up waits for the next call."""

    def send(keys: str) -> str:
        pipe.send_text(keys)
        return editor.read()

    return send


def bracketed(text: str) -> str:
    """Return the text as a terminal with bracketed paste sends it."""
    return f"\x1b[200~{text}\x1b[201~"


def by_hand(pipe: PipeInput, *keys: str) -> None:
    """Press keys one after another, each after the screen answered the one before."""

    def press() -> None:
        for key in keys:
            time.sleep(0.15)
            pipe.send_text(key)

    threading.Thread(target=press, daemon=True).start()


def test_bracketed_paste_is_one_submission(read: Read) -> None:
    """A bracketed paste of 124 lines goes as a whole with one Enter."""
    assert read(bracketed(LONG.replace("\n", "\r")) + "\r") == LONG


@pytest.mark.parametrize("newline", ["\r", "\n"])
def test_raw_paste_is_one_submission(read: Read, newline: str) -> None:
    """A raw paste, each line end an Enter, goes as a whole, and nothing of it is left for the next prompt."""
    assert read(LONG.replace("\n", newline) + "\r") == LONG
    assert read("/help\r") == "/help"


def test_typing_before_the_prompt_is_kept(pipe: PipeInput) -> None:
    """A paste that came before the first prompt is its first text."""
    editor = Editor(input=pipe, output=DummyOutput(), typed=LONG.replace("\n", "\r") + "\r")
    assert editor.read() == LONG


def test_a_command_goes_at_once(read: Read) -> None:
    """Enter runs a command."""
    assert read("/help\r") == "/help"


def test_two_commands_in_one_burst_are_two(read: Read) -> None:
    """Keys that come while nothing reads are taken one submission at a time."""
    assert read("/help\r/quit\r") == "/help"
    assert read("") == "/quit"


def test_broken_paste_is_submitted(read: Read) -> None:
    """A paste that cannot be a module goes with Enter, so that its fault is told."""
    assert read(bracketed(BROKEN) + "\r") == BROKEN


def test_enter_on_nothing_does_nothing(read: Read) -> None:
    """Enter on an empty prompt adds no line."""
    assert read("\r\r" + "/help\r").strip() == "/help"


def test_escape_enter_sends_anything(read: Read) -> None:
    """Esc Enter sends a text that is no module."""
    assert read("hello\x1b\r") == "hello"


def test_ctrl_j_makes_a_line(read: Read) -> None:
    """Ctrl-J is a new line and not Enter."""
    assert read("a\nb\x1b\r") == "a\nb"


def test_ctrl_c_clears_and_history_keeps(pipe: PipeInput, editor: Editor) -> None:
    """Ctrl-C clears the text; the up key brings it back, and Enter takes it as it was."""
    by_hand(pipe, bracketed(SMALL), "\x03", "\x1b[A", "\r")
    assert editor.read() == SMALL


def test_ctrl_c_on_nothing_says_how_to_leave(pipe: PipeInput, editor: Editor) -> None:
    """Ctrl-C on an empty prompt does not leave; the toolbar says what does, until the next key."""
    seen: list[str] = []
    editor._session.app.after_render += lambda _: seen.append("".join(part[1] for part in editor._toolbar()))
    by_hand(pipe, "\x03", "x", "\x7f", "\x04")
    with pytest.raises(EOFError):
        editor.read()
    assert [("Ctrl-D leaves" in text) for text in seen][:3] == [False, True, False]


def test_ctrl_d_leaves(read: Read) -> None:
    """Ctrl-D on an empty prompt leaves."""
    with pytest.raises(EOFError):
        read("\x04")


def test_ctrl_d_in_a_text_does_not_leave(read: Read) -> None:
    """Ctrl-D in a text deletes the character under the cursor."""
    assert read("abc\x1b[D\x04\x1b\r") == "ab"


def test_undo(read: Read) -> None:
    """Ctrl-_ takes back a paste."""
    assert read("a" + bracketed("gone") + "\x1f" + "\x1b\r") == "a"


def test_invalid_bytes_do_not_break_the_prompt(pipe: PipeInput, editor: Editor) -> None:
    """A byte that is no UTF-8 is replaced, in the text and in the history."""
    pipe.send_bytes(b"a\xffb\x1b\r")
    text = editor.read()
    text.encode("utf-8")
    assert text[0] == "a" and text[-1] == "b"


def test_edit_in_editor(pipe: PipeInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-X Ctrl-E hands the text to $EDITOR as a .py file; what it leaves waits for Enter."""
    program = tmp_path / "edit"
    program.write_text(f"#!/bin/sh\necho \"$1\" > {tmp_path}/name\nprintf '%s' '/show' > \"$1\"\n")
    program.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(program))
    monkeypatch.delenv("VISUAL", raising=False)
    editor = Editor(input=pipe, output=DummyOutput())

    def answer(_: object) -> None:
        if editor._buffer.text == "/show":
            pipe.send_text("\r")

    editor._buffer.on_text_changed += answer
    pipe.send_text("x\x18\x05")
    assert editor.read() == "/show"
    assert (tmp_path / "name").read_text().strip().endswith(".py")


def test_history_is_private_and_survives(pipe: PipeInput, tmp_path: Path) -> None:
    """What was submitted is in the history file and comes back in the next session."""
    path = tmp_path / "history"
    os.close(os.open(path, os.O_CREAT, 0o600))
    first = Editor(input=pipe, output=DummyOutput(), history=path)
    pipe.send_text(bracketed(SMALL) + "\r")
    assert first.read() == SMALL
    assert path.stat().st_mode & 0o777 == 0o600
    second = Editor(input=pipe, output=DummyOutput(), history=path)
    by_hand(pipe, "\x12", "relu", "\r", "\r")
    assert second.read() == SMALL


def test_history_leaves_out_what_is_huge(pipe: PipeInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file pasted by mistake is not read again at every start to come."""
    monkeypatch.setattr(editing, "REMEMBERED", 2_000)  # a pipe holds less than what is huge
    first = Editor(input=pipe, output=DummyOutput(), history=tmp_path / "history")
    pipe.send_text(bracketed("# " + "x" * 2_000 + "\n" + SMALL) + "\r")
    assert SMALL in first.read()
    assert not (tmp_path / "history").exists()


def test_long_pastes_are_folded(editor: Editor, read: Read) -> None:
    """A paste of more than thirty lines is wiped from the screen; a short one stays."""
    read(bracketed(LONG) + "\r")
    assert editor.folds
    read(bracketed(SMALL) + "\r")
    assert not editor.folds


def test_heavy_things_wait_for_the_first_render(pipe: PipeInput) -> None:
    """`ready` is called once, after the prompt is drawn."""
    calls: list[str] = []
    editor = Editor(input=pipe, output=DummyOutput(), ready=lambda: calls.append("ready"))
    assert calls == []
    pipe.send_text("/a\r/b\r")
    editor.read()
    editor.read()
    assert calls == ["ready"]
