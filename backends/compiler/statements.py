"""The user's statements: which one a line belongs to, and the name it assigns."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache

Statement = tuple[str, str, int]
"""A statement on one line, the name it assigns or "", its first line's number."""

Simple = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Expr


def statements(source: str) -> Callable[[int], Statement]:
    """Return a function from a line's number to the statement there."""
    rows = source.splitlines()
    simple = [node for node in ast.walk(ast.parse(source)) if isinstance(node, Simple)]

    @cache
    def find(line: int) -> Statement:
        around = [node for node in simple if node.lineno <= line <= (node.end_lineno or node.lineno)]
        if not around:
            return (rows[line - 1].strip() if line <= len(rows) else ""), "", line
        node = min(around, key=lambda n: (n.end_lineno or n.lineno) - n.lineno)
        text = ast.get_source_segment(source, node) or ""
        return " ".join(part.strip() for part in text.splitlines()), _target(node), node.lineno

    return find


def _target(node: Simple) -> str:
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)) and isinstance(node.target, ast.Name):
        return node.target.id
    return ""
