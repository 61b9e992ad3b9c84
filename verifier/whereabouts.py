"""Does a kernel file do something else where it is interpreted? What it then does on a GPU cannot be seen here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from verifier.behind import texts

_INTERPRETS = re.compile(r"(?<!re)interp(?!ol)", re.IGNORECASE)
_HARMLESS = (ast.Raise, ast.Assert, ast.Pass)


def asks_where_it_runs(tree: ast.AST) -> bool:
    """Tell whether a file names the interpreter, or decides by the device.

    A guard that only raises is no decision, nor is what runs only as a script; `is_cuda` is true here, too.
    """
    used = [step for step in getattr(tree, "body", []) if not _is_for_scripts(step)]
    tree = ast.Module(used, [])
    if any(_INTERPRETS.search(name) for name in [*_names(tree), *texts(tree)]):
        return True
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and _by_device(node.test) and not _only_raises(node):
            return True
        if isinstance(node, ast.IfExp) and _by_device(node.test) and not _chooses_a_device(node):
            return True
    return False


def _is_for_scripts(step: ast.stmt) -> bool:
    return isinstance(step, ast.If) and "__name__" in ast.unparse(step.test)


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def _by_device(test: ast.expr) -> bool:
    for node in ast.walk(test):
        if not isinstance(node, ast.Attribute):
            continue
        if node.attr == "is_cpu" or (node.attr == "is_available" and "cuda" in ast.unparse(node.value)):
            return True
        if node.attr == "type" and isinstance(node.value, ast.Attribute) and node.value.attr == "device":
            return True
    return False


def _only_raises(node: ast.If) -> bool:
    return not node.orelse and all(isinstance(step, _HARMLESS) for step in node.body)


def _chooses_a_device(node: ast.IfExp) -> bool:
    """Tell whether it is what many files begin with: torch.device("cuda" if ... else "cpu")."""
    return all("cpu" in text or "cuda" in text for text in (ast.unparse(node.body), ast.unparse(node.orelse)))
