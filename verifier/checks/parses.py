"""Is it a Python file at all, and does it define what is asked for?"""

from __future__ import annotations

import ast

from verifier.trial import Failed
from verifier.verdict import Check

ENTRY = "ModelNew"


def check(kernel: str) -> Check:
    """Parse the kernel's text; nothing is executed."""
    if not kernel.strip():
        raise Failed("no_code", "there is no code to judge")
    try:
        ast.parse(kernel)
    except SyntaxError as error:
        text = (error.text or "").strip()[:80]
        raise Failed("syntax_error", f"line {error.lineno}: {error.msg}: {text}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Failed("syntax_error", f"the file cannot be parsed: {error}") from error
    return Check("parses", "pass", f"{kernel.count(chr(10)) + 1} lines")
