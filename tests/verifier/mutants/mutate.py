"""Wrong kernels made of right ones: every single change of a kernel file that a person or a model could get wrong.

Text and ast only; a mutation replaces one expression and leaves the rest of the file as it stands.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.verifier.mutants import host, inside


@dataclass(frozen=True)
class Mutation:
    """One change: of which kind, where, from what to what, and the whole file with it."""

    kind: str
    line: int
    before: str
    after: str
    text: str

    def __str__(self) -> str:
        """Say it in one line."""
        return f"{self.kind}, line {self.line}: {self.before} -> {self.after}"


Rule = Callable[[ast.AST], Iterator[tuple[str, ast.AST, str]]]


def mutations(kernel: str) -> list[Mutation]:
    """List every mutation of a kernel file, in the order of the file."""
    found = []
    for function in _functions(ast.parse(kernel)):
        rules: tuple[Rule, ...] = inside.RULES if _is_jit(function) else host.RULES
        for node in (node for statement in function.body for node in ast.walk(statement)):
            for rule in rules:
                found += [_replaced(kernel, kind, place, new) for kind, place, new in rule(node)]
    unique = {(m.kind, m.text): m for m in found if m.text != kernel}
    return sorted(unique.values(), key=lambda m: m.line)


def _functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name != "__init__"]


def _is_jit(function: ast.FunctionDef) -> bool:
    return any("triton.jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def _replaced(kernel: str, kind: str, node: ast.AST, new: str) -> Mutation:
    assert isinstance(node, (ast.expr, ast.stmt)) and node.end_lineno is not None and node.end_col_offset is not None
    lines = kernel.encode().split(b"\n")
    start = sum(len(line) + 1 for line in lines[: node.lineno - 1]) + node.col_offset
    end = sum(len(line) + 1 for line in lines[: node.end_lineno - 1]) + node.end_col_offset
    whole = b"\n".join(lines)
    before = " ".join(whole[start:end].decode().split())
    return Mutation(kind, node.lineno, before, new, (whole[:start] + new.encode() + whole[end:]).decode())
