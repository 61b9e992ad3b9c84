"""Packages that are not here: what they only decorate or annotate works without them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from verifier.paste.edits import Edit, replacing
from verifier.paste.imports import is_available
from verifier.paste.lines import Lines
from verifier.paste.statements import Statement


def names_of(body: list[Statement]) -> set[str]:
    """Return the names imported from files or packages that are not here."""
    found: set[str] = set()
    for s in body:
        if isinstance(s.node, ast.ImportFrom):
            package = (s.node.module or "").split(".")[0]
            if s.node.level or not is_available(package):
                found |= s.bound
        elif isinstance(s.node, ast.Import):
            packages = [(a.asname or a.name.split(".")[0], a.name.split(".")[0]) for a in s.node.names]
            found |= {name for name, package in packages if not is_available(package)}
    return found


def without_trimmings(lines: Lines, body: list[Statement]) -> tuple[list[Edit], list[str]]:
    """Take off annotations and class decorators that need an absent package."""
    absent = names_of(body) - {"torch", "np", "numpy"}
    absent &= {name for s in body if s.defines for name in s.used}
    edits, found = [], set()
    for s in body:
        if not absent & s.used:
            continue
        for node in ast.walk(s.node):
            for edit, part in _trimmings(lines, node):
                names = {n.id for n in ast.walk(part) if isinstance(n, ast.Name)} & absent
                if names:
                    edits.append(edit)
                    found |= names
    return edits, [
        f"took off annotations and decorators that need {', '.join(sorted(found))}: not here"
    ] if found else []


def _trimmings(lines: Lines, node: ast.AST) -> Iterator[tuple[Edit, ast.expr]]:
    if isinstance(node, ast.arg) and node.annotation:
        yield replacing(lines, node, node.arg), node.annotation
    elif isinstance(node, ast.AnnAssign) and node.value:
        target, end = replacing(lines, node.target, ""), replacing(lines, node.annotation, "")
        yield Edit(target.end_line, target.end_column, end.end_line, end.end_column, ""), node.annotation
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns:
        end = replacing(lines, node.returns, "")
        arrow = lines.texts[end.line - 1].rfind("->", 0, end.column)
        if arrow >= 0:
            before = len(lines.texts[end.line - 1][:arrow].rstrip())
            yield Edit(end.line, before, end.end_line, end.end_column, ""), node.returns
    if isinstance(node, ast.ClassDef):
        for decorator in node.decorator_list:
            yield Edit(decorator.lineno, 0, (decorator.end_lineno or decorator.lineno) + 1, 0, ""), decorator
