"""Slash commands, on a desk with a fake backend and verifier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backends import Chunk, NothingToConvert, Request
from repl import commands
from repl.arguments import parse
from repl.desk import Desk
from repl.terminal import Interrupts
from tests.repl.fake import KERNEL, FakeParts
from tests.repl.modules import BROKEN, SMALL


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk that keeps its files in a folder of the test, which is also where the test runs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    with Interrupts() as interrupts:
        desk = Desk(parse([]), interrupts, FakeParts("quick"), plain=True)
        yield desk
        desk.close()


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """Return what was printed since the last look."""
    return capsys.readouterr().out


def test_the_commands() -> None:
    """There are exactly the promised commands, and each has help."""
    assert sorted(commands.COMMANDS) == [
        "/ask", "/backend", "/download", "/edit", "/help", "/model", "/quit", "/retry", "/save", "/show", "/verify",
    ]  # fmt: skip
    assert all(commands.meaning(function) for function in commands.COMMANDS.values())


def test_help_lists_each_command(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """/help prints every command with the first line of its docstring, within 80 columns."""
    desk.take("/help")
    text = said(capsys)
    assert all(name in text and commands.meaning(function) in text for name, function in commands.COMMANDS.items())
    assert max(map(len, text.splitlines())) <= 80


def test_unknown_command_names_the_nearest(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt command is answered with the one that was meant."""
    desk.take("/hlep")
    assert "did you mean /help?" in said(capsys)
    desk.take("/xyzzy")
    assert "/help lists them" in said(capsys)


@pytest.mark.parametrize("line", ["/retry", "/verify", "/show", "/show problem", "/save", "/edit"])
def test_nothing_to_work_on_is_one_line(desk: Desk, capsys: pytest.CaptureFixture[str], line: str) -> None:
    """Before the first paste a command says so in one line."""
    desk.take(line)
    assert len(said(capsys).splitlines()) == 1


def test_show(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """/show prints the kernel, the problem or the error, bare."""
    desk.take(SMALL)
    said(capsys)
    desk.take("/show")
    assert said(capsys) == KERNEL
    desk.take("/show problem")
    assert said(capsys).strip() == SMALL
    desk.take("/show error")
    assert "no error" in said(capsys)
    desk.take("/show all")
    assert "problem, kernel, error" in said(capsys)


def test_save(desk: Desk, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """/save writes what was shown; a file that is not ours is not overwritten, our own is."""
    desk.take(SMALL)
    desk.take("/save")
    assert (tmp_path / "Net_triton.py").read_text() == KERNEL
    desk.take("/save")
    (tmp_path / "mine.py").write_text("precious")
    said(capsys)
    desk.take("/save mine.py")
    assert "exists" in said(capsys) and (tmp_path / "mine.py").read_text() == "precious"
    desk.take("/save no/such/folder.py")
    assert "cannot be written" in said(capsys)


def test_retry_goes_on_from_the_last(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """/retry asks for the next candidate, with what became of the last one."""
    requests = []
    write = desk._writer().write
    monkeypatch.setattr(desk._writer(), "write", lambda request: requests.append(request) or write(request))
    desk.take(SMALL)
    desk.take("/retry")
    assert [request.candidate for request in requests] == [0, 1]
    assert requests[0].feedback == () and KERNEL.strip() in requests[1].feedback[-1]
    assert desk.session.folder and (desk.session.folder / "02-verdict.json").exists()


def test_retry_that_writes_nothing_keeps_the_kernel(
    desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When there is no other candidate the last kernel, and what was said of it, can still be shown and saved."""

    def nothing(request: Request) -> Iterator[Chunk]:
        raise NothingToConvert("no_more_candidates", "there is no other")
        yield

    desk.take(SMALL)
    monkeypatch.setattr(desk._writer(), "write", nothing)
    said(capsys)
    desk.take("/retry")
    text = said(capsys)
    assert "no_more_candidates" in text and "the last kernel stays" in text
    assert desk.kernel == KERNEL and desk.turn and desk.turn.verdict and desk.turn.verdict.passed


def test_verify_again(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """/verify judges the same kernel again."""
    desk.take(SMALL)
    said(capsys)
    desk.take("/verify")
    text = said(capsys)
    assert "verified on cpu (interpreter)" in text and KERNEL not in text


def test_edit_judges_what_was_edited(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/edit opens the kernel in $EDITOR and judges what comes back as a turn of its own."""
    program = tmp_path / "edit"
    program.write_text('#!/bin/sh\necho "# edited" >> "$1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(program))
    desk.take(SMALL)
    desk.take("/edit")
    assert desk.kernel == KERNEL + "# edited\n"
    assert desk.session.folder and (desk.session.folder / "02-kernel.py").read_text() == desk.kernel


def test_edit_without_an_editor(
    desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor that does not exist is one clear line."""
    monkeypatch.setenv("VISUAL", "no-such-editor --wait")
    desk.take(SMALL)
    said(capsys)
    desk.take("/edit")
    assert "no-such-editor --wait was not found" in said(capsys)


def test_model(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """/model says who writes; one that is not there changes nothing."""
    desk.take("/model")
    assert said(capsys) == "builtin\n"
    desk.take("/model some/path")
    assert said(capsys) == "local · some/path\n"
    desk.take("/model recorded saved.md")
    assert said(capsys) == "recorded · saved.md\n"
    desk.take("/model some/path")
    said(capsys)
    desk.take("/model gone")
    text = said(capsys)
    assert "the model is not here" in text and "fetch it first" in text and "some/path" in text


def test_ask(desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """/ask has the model write again, with the person's words and what became of the last answer."""
    desk.take("/ask use less memory")
    assert "nothing was pasted yet" in said(capsys)
    desk.take(SMALL)
    said(capsys)
    desk.take("/ask use less memory")
    assert "builtin takes no wishes" in said(capsys)
    desk.take("/model some/path")
    requests = []
    write = desk._writer().write
    monkeypatch.setattr(desk._writer(), "write", lambda request: requests.append(request) or write(request))
    desk.take("/ask use less memory")
    assert requests[0].instructions == "use less memory" and requests[0].feedback
    desk.take("/ask")
    assert "say what the model should do" in said(capsys)


def test_reasoning_is_shown_when_asked_for(
    desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves one row, and /show reasoning prints the whole of it."""

    def thoughtful(request: Request) -> Iterator[Chunk]:
        yield Chunk("reasoning", "the rows first,\nthen the columns")
        yield Chunk("code", "x = 1\n")

    desk.take("/show reasoning")
    assert "no reasoning" in said(capsys)
    monkeypatch.setattr(desk._writer(), "write", thoughtful)
    desk.take(SMALL)
    text = said(capsys)
    assert "thought for 0 s · 6 words · /show reasoning" in text and "columns" not in text
    desk.take("/show reasoning")
    assert "the rows first,\nthen the columns" in said(capsys)


def test_backend(desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """/backend lists the servers, and what the chosen one does."""
    monkeypatch.setattr("backends.probe.reachable", lambda: iter([("ollama", "answers: qwen"), ("vllm", "is not up")]))
    monkeypatch.setattr("backends.probe.checked", lambda model: f"{model}: one token in 0.1 s")
    desk.take("/backend")
    assert said(capsys).split("\n")[:3] == [
        "  ollama       answers: qwen", "  vllm         is not up", "  chosen       builtin",
    ]  # fmt: skip
    desk.take("/model ollama#qwen")
    said(capsys)
    desk.take("/backend")
    assert "chosen       ollama#qwen: one token in 0.1 s" in said(capsys)


def test_download_asks_first(desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """/download tells the size and the disk; only `now` fetches, and what it says last stays."""
    fetched: list[str] = []

    def fetch(name: str) -> Iterator[str]:
        fetched.append(name)
        yield from ("10% of 16 GB", "100% of 16 GB")

    monkeypatch.setattr("backends.local.is_here", lambda name: False)
    monkeypatch.setattr("backends.download.size", lambda name: "16 GB to fetch, 64 GB are free in /cache")
    monkeypatch.setattr("backends.download.fetch", fetch)
    desk.take("/download facebook/KernelLLM")
    assert "64 GB are free" in said(capsys) and not fetched
    desk.take("/download facebook/KernelLLM now")
    assert said(capsys) == "100% of 16 GB\n" and fetched == ["facebook/KernelLLM"]


def test_quit(desk: Desk) -> None:
    """/quit leaves, and so does the word alone."""
    for word in ("/quit", "exit", "quit()"):
        with pytest.raises(commands.Leave):
            desk.take(word)


def test_a_broken_paste_is_kept_and_told(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """A paste that is no problem is one message with its code and line, and is in the session folder."""
    desk.take(BROKEN)
    text = said(capsys)
    assert "syntax_error, line 7" in text
    assert desk.session.folder and (desk.session.folder / "01-problem.py").read_text() == BROKEN


def test_completion() -> None:
    """Completion offers commands with their help, and the arguments that exist."""
    assert [word for word, _, _ in commands.complete("/s")] == ["/show", "/save"]
    assert all(meaning for _, _, meaning in commands.complete("/"))
    assert [word for word, _, _ in commands.complete("/show k")] == ["kernel"]
    assert "builtin" in [word for word, _, _ in commands.complete("/model ")]


def test_completion_of_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/save completes files and folders."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.py").write_text("")
    assert [word for word, _, _ in commands.complete("/save f")] == ["file.py", "folder/"]
