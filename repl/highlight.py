"""Colours for code that arrives line by line. Each line is lexed once; characters are never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygments.lexer import ExtendedRegexLexer, LexerContext
from pygments.lexers.python import PythonLexer
from pygments.styles import get_style_by_name
from pygments.token import Comment, Error, Keyword, Name, Number, String, Token, _TokenType
from pygments.util import ClassNotFound

if TYPE_CHECKING:
    from rich.style import Style
    from rich.text import Text

ANSI = "ansi"
"""The default theme: the terminal's own 16 colours, the plain ones, which are readable on black and on white."""

PALETTE: dict[_TokenType, str] = {
    Keyword: "magenta",
    Keyword.Constant: "cyan",
    Name.Function: "bold",
    Name.Class: "bold",
    Name.Decorator: "blue",
    Name.Builtin.Pseudo: "cyan",
    String: "green",
    String.Interpol: "cyan",
    Number: "cyan",
    Comment: "dim",
    Error: "",
}


class UnknownTheme(ValueError):
    """No theme has this name."""


class LineLexer(ExtendedRegexLexer, PythonLexer):  # type: ignore[misc]
    """A Python lexer that is fed one line at a time and remembers where it was."""

    def __init__(self) -> None:
        super().__init__(stripnl=False, ensurenl=False)
        self.stack = ["root"]

    def feed(self, line: str) -> list[tuple[_TokenType, str]]:
        """Return the tokens of the next line."""
        context = LexerContext(line, 0, self.stack)
        tokens = [(kind, text) for _, kind, text in self.get_tokens_unprocessed(context=context)]
        self.stack = context.stack
        return tokens


class Highlighter:
    """Turns successive lines of one file into coloured text."""

    def __init__(self, theme: str = ANSI) -> None:
        self._lexer = LineLexer()
        self._styles = _Styles(theme)

    def __call__(self, line: str) -> Text:
        """Colour the next line, given without its newline."""
        from rich.text import Text

        text = Text(no_wrap=True, overflow="ignore", end="")
        for kind, piece in self._lexer.feed(line + "\n"):
            text.append(piece, self._styles[kind])
        text.right_crop(1)
        return text


class _Styles(dict[_TokenType, "Style"]):
    """Token kind → rich style, found on demand: a kind without a style takes its parent's."""

    def __init__(self, theme: str) -> None:
        super().__init__()
        self._pygments = None if theme == ANSI else _pygments_style(theme)

    def __missing__(self, kind: _TokenType) -> Style:
        from rich.style import Style

        if self._pygments is None:
            style = Style.parse(_nearest(kind))
        else:
            known = self._pygments.style_for_token(kind)
            style = Style(
                color="#" + known["color"] if known["color"] else None,
                bold=known["bold"] or None,
                italic=known["italic"] or None,
                underline=known["underline"] or None,
            )  # the theme's background is left out: it would pad every line with blanks
        self[kind] = style
        return style


def prompt_style(theme: str = ANSI) -> list[tuple[str, str]]:
    """Return the theme as style rules for the prompt: ("pygments.keyword", "ansimagenta")."""
    if theme == ANSI:
        return [(_class_name(kind), _prompt_word(look)) for kind, look in PALETTE.items()]
    rules = []
    for kind, known in _pygments_style(theme):
        words = [name for name in ("bold", "italic", "underline") if known[name]]
        rules.append((_class_name(kind), " ".join([*words, "#" + known["color"]] if known["color"] else words)))
    return rules


def _pygments_style(theme: str):  # type: ignore[no-untyped-def]
    try:
        return get_style_by_name(theme)
    except ClassNotFound:
        raise UnknownTheme(f"no theme is called {theme!r}; `ansi` and every Pygments style work") from None


def _nearest(kind: _TokenType) -> str:
    while kind not in PALETTE and kind is not Token:
        kind = kind.parent
    return PALETTE.get(kind, "")


def _class_name(kind: _TokenType) -> str:
    return ".".join(["pygments", *(part.lower() for part in kind)])


def _prompt_word(look: str) -> str:
    return look if look in ("", "bold", "dim") else f"ansi{look}"
