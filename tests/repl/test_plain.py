"""The reader for terminals that cannot draw."""

from __future__ import annotations

import io

import pytest

from repl.plain import PlainReader
from tests.repl.modules import SMALL


def test_a_dot_sends() -> None:
    """A line with only a dot ends a text; a command is a line of its own."""
    reader = PlainReader(io.StringIO(f"/help\n{SMALL}\n.\n/quit\n"))
    assert reader.read() == "/help"
    assert reader.read() == SMALL
    assert reader.read() == "/quit"


def test_the_end_of_input_sends() -> None:
    """The end of input sends what was read, then leaves."""
    reader = PlainReader(io.StringIO(SMALL))
    assert reader.read() == SMALL
    with pytest.raises(EOFError):
        reader.read()


def test_nothing_is_not_sent() -> None:
    """A dot after nothing is no submission."""
    reader = PlainReader(io.StringIO("\n.\n\n"))
    with pytest.raises(EOFError):
        reader.read()
