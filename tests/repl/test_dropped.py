"""A file's name at the prompt stands for what is in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from repl.arguments import parse
from repl.desk import Desk
from repl.dropped import dropped
from repl.reading import is_command, on_enter, toolbar
from repl.terminal import Interrupts
from tests.repl.fake import FakeParts
from tests.repl.modules import SMALL


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A module in a file whose name has a space."""
    file = tmp_path / "my model.py"
    file.write_text(SMALL)
    return file


def test_a_path_is_read_as_terminals_paste_it(model: Path) -> None:
    """Quoted, escaped, as an address, or with a space behind it."""
    plain = str(model)
    for text in (plain, f"'{plain}' ", f'"{plain}"', plain.replace(" ", "\\ "), f"file://{plain}"):
        assert dropped(text) == model


@pytest.mark.parametrize("text", ["/help", "/save kernel.py", "nothing/there.py", "x = 'a.py'", "", SMALL, "\0.py"])
def test_other_text_is_no_file(text: str) -> None:
    """Commands, code and names of nothing stay what they are."""
    assert dropped(text) is None


def test_a_path_is_no_command_and_enter_converts_it(model: Path) -> None:
    """Also typed, with one Enter, although it begins with a slash; the toolbar names the file."""
    assert not is_command(str(model))
    assert on_enter(str(model), "typed") == "convert"
    assert toolbar(str(model), "typed", "") == ("the file my model.py", "Enter converts")


def test_the_file_is_converted(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As if its text had been pasted."""
    monkeypatch.setenv("XDG_STATE_HOME", str(model.parent))
    with Interrupts() as interrupts:
        desk = Desk(parse([]), interrupts, FakeParts("quick"), plain=True)
        desk.take(str(model))
        desk.close()
    assert desk.problem and desk.problem.entry == "Net"
    assert f"read {model}" in capsys.readouterr().out.replace("\n", "")
