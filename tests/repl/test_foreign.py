"""Foreign text cannot act on the terminal."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from repl.foreign import one_line, visible


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_nothing_unsafe_is_left(text: str) -> None:
    """No control character but tab and newline survives, and nothing that reorders text."""
    shown = visible(text)
    assert all(character in "\t\n" or (character >= " " and not "\x7f" <= character <= "\x9f") for character in shown)
    assert not set(shown) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")
    shown.encode("utf-8")


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_ordinary_text_stays(text: str) -> None:
    """Printable text is shown as it is."""
    assert visible(text) == text


def test_one_line() -> None:
    """Line ends become blanks, escapes are written out."""
    assert one_line("a\n  b\x1b[31m") == "a b\\x1b[31m"
