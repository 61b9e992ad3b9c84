"""The emitted file is laid out: `ruff format` without configuration has nothing to change in it."""

from __future__ import annotations

import pytest

from backends.compiler.formatting import formatted, sections
from tests.backends.compiler.examples import EXAMPLES, MORE
from tests.backends.compiler.written import source, triton


@pytest.mark.parametrize("name", [*EXAMPLES, *MORE])
def test_the_formatter_changes_nothing(name: str) -> None:
    """Whoever keeps the file and formats it gets no difference, and no line is longer than a screen."""
    text = triton({**EXAMPLES, **MORE}[name].text)
    assert formatted(text) == text
    assert [line for line in text.splitlines() if len(line) > 120] == []


def test_the_users_own_lines_are_laid_out_too() -> None:
    """The constructor that is kept is part of the file."""
    text = triton(source("return self.fc(x0)", (4, 16), init="self.fc = nn.Linear( 16,\n  8, bias = False )"))
    assert "self.fc = nn.Linear(16, 8, bias=False)" in text


def test_pieces_joined_are_the_file() -> None:
    """A file is streamed function by function."""
    text = "import torch\n\n\ndef f():\n    pass\n\n\ndef g():\n    pass\n"
    assert "".join(sections(text)) == text and len(list(sections(text))) == 3
