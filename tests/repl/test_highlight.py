"""Colours never change characters."""

from __future__ import annotations

from pathlib import Path

import pytest

from repl.highlight import Highlighter, LineLexer, UnknownTheme, prompt_style

OWN = Path(__file__).read_text("utf-8") + '\nx = """a\n  b [red] c\n"""  # café 张量\n\ty = f"{x!r:>10}"\n'


@pytest.mark.parametrize("theme", ["ansi", "monokai"])
def test_characters_stay(theme: str) -> None:
    """Every line comes out as it went in, tabs and markup included."""
    highlight = Highlighter(theme)
    assert [highlight(line).plain for line in OWN.split("\n")] == OWN.split("\n")


def test_the_lexer_remembers_open_strings() -> None:
    """A line inside triple quotes is a string although its quotes are elsewhere."""
    lexer = LineLexer()
    lexer.feed('x = """a\n')
    kinds = {str(kind) for kind, text in lexer.feed("def f(): pass\n")}
    assert all("String" in kind for kind in kinds)


def test_the_default_uses_the_terminals_colours() -> None:
    """The default theme asks for the sixteen colours of the terminal and no background."""
    text = Highlighter()("def f(x): return 'a'  # why")
    colours = {span.style.color.name for span in text.spans if getattr(span.style, "color", None)}
    assert colours and colours <= {"magenta", "green", "cyan", "blue"}
    assert all(rule.startswith("ansi") or rule in ("", "bold", "dim") for _, rule in prompt_style())


def test_an_unknown_theme_is_refused() -> None:
    """A theme that nobody has is an error that names it."""
    with pytest.raises(UnknownTheme, match="nosuch"):
        prompt_style("nosuch")
