"""One answer as it is written, and what makes two of them the same."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from backends import Chunk
from repl.plan import Ask


class Draft:
    """What was written of an answer so far: its file, what is said beside it, and what was thought before."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {"code": [], "prose": [], "reasoning": []}

    @property
    def kernel(self) -> str:
        """The file, as far as it is known."""
        return "".join(self._texts["code"])

    @property
    def prose(self) -> str:
        """What is said beside the file, or instead of one."""
        return "".join(self._texts["prose"])

    @property
    def reasoning(self) -> str:
        """What was thought before."""
        return "".join(self._texts["reasoning"])

    def take(self, kind: str, text: str) -> None:
        """Add a piece; `final` replaces the file, `again` voids all."""
        if kind == "final":
            self._texts["code"] = [text]
        elif kind == "again":
            self._texts = {name: [] for name in self._texts}
        elif kind in self._texts:
            self._texts[kind].append(text)


@dataclass
class Answer:
    """One answer as it is written, and what is known of it."""

    ask: Ask
    began: float
    draft: Draft = field(default_factory=Draft)
    cut: str = ""
    awaited: str = ""
    """What was waited for before the first word, as it was told last."""
    repaired: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """The candidate's number in the turn, from 1."""
        return self.ask.number

    @property
    def kernel(self) -> str:
        """The file, as far as it is known."""
        return self.draft.kernel

    @property
    def fault(self) -> str:
        """What is wrong with an answer that holds no kernel, in words: that it was cut, or what it holds instead."""
        words = len(self.draft.prose.split())
        holds = f"{words} words and no code" if words else "no code"
        if not self.cut:
            return f"the answer holds {holds}"
        if self.kernel.strip():
            return f"the answer was cut off: {self.cut}"
        last = "" if words or self.draft.reasoning or not self.awaited else f" (last: {self.awaited})"
        return f"the answer was cut off: {self.cut}{last}; it held {holds}"

    def take(self, chunk: Chunk) -> None:
        """Take note of a chunk."""
        self.draft.take(chunk.kind, chunk.text)
        if chunk.kind == "cut":
            self.cut = chunk.text
        elif chunk.kind == "status":
            self.awaited = chunk.text
        elif chunk.kind == "repaired":
            self.repaired += (chunk.text,)


def shape(kernel: str) -> str:
    """Return what makes two candidates the same: their code without comments, docstrings and layout."""
    try:
        tree = ast.parse(kernel)
    except (SyntaxError, ValueError, RecursionError):
        return kernel
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1 and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                del body[0]
    return ast.dump(tree)
