"""A whole answer of a language model → the one kernel file that is meant, also when it is badly fenced or cut."""

from __future__ import annotations

import ast
import re

PYTHON = {"", "python", "py", "python3", "triton"}
FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*$")
MODEL = re.compile(r"^class\s+ModelNew\b", re.M)
_FIRST_CODE = re.compile(r"^(?:import |from \w|@triton)", re.M)


def extract(text: str) -> str | None:
    """Return the kernel file in a whole answer, or None: the last complete block with ModelNew before all else."""
    text = _without_reasoning(text.replace("\r\n", "\n"))
    blocks = [code for language, code in _blocks(text) if language in PYTHON]
    named = [code for code in blocks if MODEL.search(code)]
    parsing = [code for code in named if parses(code)]
    if parsing or named:
        return _with_earlier_kernels((parsing or named)[-1], blocks)
    head = _with_imports(re.split(r"^[ \t]*```", text, maxsplit=1, flags=re.M)[0])
    if MODEL.search(head) and parses(head):
        return head  # only the closing fence arrived, or no fence at all
    bare = _longest_module(text)
    if bare:
        return bare
    return blocks[-1] if blocks else None


def _blocks(text: str) -> list[tuple[str, str]]:
    """Return (language, code) of each fenced block; a last block without its end counts."""
    found: list[tuple[str, list[str]]] = []
    fence = ""
    for line in text.split("\n"):
        match = FENCE.match(line)
        if match and not fence:
            fence = match[1]
            found.append((match[2].lower(), []))
        elif match and match[1][0] == fence[0] and len(match[1]) >= len(fence) and not match[2]:
            fence = ""
        elif fence:
            found[-1][1].append(line)
    return [(language, "\n".join(lines).rstrip("\n") + "\n") for language, lines in found if any(map(str.strip, lines))]


def _with_earlier_kernels(code: str, blocks: list[str]) -> str:
    """A class that uses kernels shown in earlier blocks needs them in its file."""
    if "@triton.jit" in code:
        return code
    earlier = [b for b in blocks[: blocks.index(code)] if "@triton.jit" in b and not MODEL.search(b) and parses(b)]
    return "\n".join([*earlier, code])


def _longest_module(text: str) -> str | None:
    """Without fences the file runs from the first import to where it stops being Python."""
    start = _FIRST_CODE.search(text)
    if not start:
        return None
    lines = text[start.start() :].split("```")[0].rstrip().split("\n")
    for end in range(len(lines), 0, -1):
        code = _with_imports("\n".join(lines[:end]) + "\n")
        if parses(code):
            return code if MODEL.search(code) else None
    return None


def _with_imports(code: str) -> str:
    """An answer whose first line was lost still means torch."""
    if "torch" in code and MODEL.search(code) and not re.search(r"^import torch\s*(?:,|;|#|$)", code, re.M):
        return "import torch\n" + code
    return code


def _without_reasoning(text: str) -> str:
    text = re.sub(r"<think>.*?(?:</think>|\Z)", "", text, flags=re.S)
    return text.rsplit("</think>", 1)[-1]


def parses(code: str) -> bool:
    """Tell whether the text is Python."""
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True
