"""One answer as it is written, and what makes two of them the same."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from backends import Chunk
from repl.plan import Ask


@dataclass
class Answer:
    """One answer as it is written."""

    ask: Ask
    began: float
    pieces: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    whole: bool = False
    cut: str = ""
    repaired: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """The candidate's number in the turn, from 1."""
        return self.ask.number

    @property
    def kernel(self) -> str:
        """The file, as far as it is known."""
        return "".join(self.pieces)

    @property
    def fault(self) -> str:
        """What is wrong with an answer that holds no kernel, in words: that it was cut, or what it holds instead."""
        words = len("".join(self.prose).split())
        holds = f"{words} words and no code" if words else "no code"
        if not self.cut:
            return f"the answer holds {holds}"
        return f"the answer was cut off: {self.cut}" + ("" if self.kernel.strip() else f"; it held {holds}")

    def take(self, chunk: Chunk) -> None:
        """Add a chunk; `final` replaces what was streamed, `again` voids it."""
        if chunk.kind == "final":
            self.pieces, self.whole = [chunk.text], True
        elif chunk.kind == "again":
            self.pieces, self.prose = [], []
        elif chunk.kind == "code":
            self.pieces.append(chunk.text)
        elif chunk.kind == "prose":
            self.prose.append(chunk.text)
        elif chunk.kind == "cut":
            self.cut = chunk.text
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
