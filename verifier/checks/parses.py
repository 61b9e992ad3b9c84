"""Is it a Python file at all, and does it define what is asked for?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from verifier.behind import named_in
from verifier.trial import Failed
from verifier.verdict import Check

ENTRY = "ModelNew"
EXTENSIONS = "cpp_extension"
"""The part of torch that compiles C++ and CUDA."""


def check(kernel: str) -> Check:
    """Parse the kernel's text; nothing is executed."""
    if not kernel.strip():
        raise Failed("no_code", "there is no code to judge")
    try:
        tree = ast.parse(kernel)
    except SyntaxError as error:
        text = (error.text or "").strip()[:80]
        raise Failed("syntax_error", f"line {error.lineno}: {error.msg}: {text}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Failed("syntax_error", f"the file cannot be parsed: {error}") from error
    found = named_in(tree)
    if found:
        raise Failed("cheat", f"side_effect: the kernel file looks behind functions and frames ({found})")
    if any(EXTENSIONS in name for name in _imported(tree)):
        raise Failed("no_triton_kernel", "the kernel file builds a C++ or CUDA extension: that is no Triton kernel")
    return Check("parses", "pass", f"{kernel.count(chr(10)) + 1} lines")


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
