"""Expressions of sizes as people write them: the exporter's symbols by name, `a - b` for `a + (-1)*b`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sympy.printing.precedence import precedence
from torch.utils._sympy.printers import PythonPrinter


class NoName(Exception):
    """A run-time size that no input's shape gives."""


def size_text(expression: Any, names: Mapping[Any, str]) -> str:
    """Write a symbolic expression in Python; raise NoName for a symbol that `names` lacks."""
    return str(_Printer(names).doprint(expression))


class _Printer(PythonPrinter):
    def __init__(self, names: Mapping[Any, str]) -> None:
        super().__init__()
        self._texts = names

    def _print_ToFloat(self, size: Any) -> str:
        return f"float({self._print(size.args[0])})"

    def _print_Float(self, number: Any) -> str:
        return repr(float(number))

    def _print_Symbol(self, symbol: Any) -> str:
        if symbol not in self._texts:
            raise NoName(str(symbol))
        return self._texts[symbol]

    def _print_Add(self, sum: Any, order: str | None = None) -> str:
        terms = sorted(sum.args, key=lambda term: bool(term.could_extract_minus_sign()))
        text = ""
        for term in terms:
            minus = bool(term.could_extract_minus_sign())
            part = self.parenthesize(-term if minus else term, precedence(sum))
            text += (" - " if minus else " + ") + part if text else ("-" if minus else "") + part
        return text
