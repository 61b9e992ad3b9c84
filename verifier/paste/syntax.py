"""From lines to a syntax tree: tries what a paste may be wrapped in until Python reads it, or says why it can't."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from verifier.paste import wrappings
from verifier.paste.fences import unfenced
from verifier.paste.lines import Lines
from verifier.paste.prompts import unprompted
from verifier.paste.refusal import NotAProblem

LARGEST_CODE = 600_000
"""Characters of Python accepted: parsing more would hold up the prompt for seconds."""

_CODE_LINE = re.compile(r"[ \t]*(?:(?:import|from|class|def|async|@|return|if|for|while|with|try|#)\b|@\w|.*[=(])")
_OPENING = re.compile(
    r"(?:import [\w.]+( as \w+)?(, ?[\w.]+( as \w+)?)*\s*(#.*)?$|from [\w.]+ import |class \w+.*:|def \w+\(|@\w)"
)
_CUT_OFF = re.compile(
    r"was never closed|unterminated triple-quoted|expected an indented block|unexpected EOF|'\w+' block"
)

_OPEN_END = re.compile(
    r"(?:[-+*/%@=<>,.&|(\[{:\\]|\b(?:in|and|or|not|if|else|import|from|as|def|class|lambda|for|is|with))\s*$"
)

Mend = Callable[[Lines], Lines | None]
_OUTER: tuple[Mend, ...] = (
    wrappings.unquoted,
    lambda lines: unfenced(lines, lambda block: parsed(mended(block, _INNER)) is not None),
)
_INNER: tuple[Mend, ...] = (
    wrappings.from_diff,
    wrappings.ungutted,
    wrappings.from_heredoc,
    unprompted,
    wrappings.dedented,
    wrappings.merged,
    wrappings.unescaped,
    wrappings.untypeset,
    wrappings.unmagical,
    lambda lines: without_prose(lines),
    lambda lines: _untabbed(lines),
)


@dataclass(frozen=True)
class Code:
    """Python that parses: its lines and its tree."""

    lines: Lines
    tree: ast.Module


def read(lines: Lines) -> Code:
    """Find the Python in a paste; raise NotAProblem with the line and the reason."""
    lines = mended(wrappings.from_notebook(lines) or lines).trimmed()
    if not lines.texts:
        raise NotAProblem("empty", "nothing but prompts and blank lines was pasted", "Paste a PyTorch nn.Module.")
    if len(lines.text) > LARGEST_CODE:
        raise NotAProblem("too_large", "the text is too long to be a module", "Paste one module.")
    try:
        return Code(lines, tree(lines.text))
    except SyntaxError as fault:
        raise _explained(fault, lines) from None


@lru_cache(maxsize=4)
def tree(text: str) -> ast.Module:
    """Parse without warnings; every way to fail is a SyntaxError. The tree is shared: nobody may change it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in somebody's docstring is not our reader's business
            return ast.parse(text)
    except (RecursionError, MemoryError):
        raise SyntaxError("nested too deeply") from None
    except ValueError as fault:
        raise SyntaxError(str(fault)) from None


def parsed(lines: Lines) -> ast.Module | None:
    """Return the tree, or None where the lines are no Python."""
    if sum(map(len, lines.texts)) > LARGEST_CODE:
        return None
    try:
        return tree(lines.text)
    except SyntaxError:
        return None


def mended(lines: Lines, mends: tuple[Mend, ...] = _OUTER + _INNER) -> Lines:
    """Take off one wrapping after the other until Python reads what is left."""
    if parsed(lines) is not None:
        return lines
    for mend in mends:
        changed = mend(lines)
        if changed is not None:
            lines = changed
            if parsed(lines) is not None:
                break
    return lines


def without_prose(lines: Lines) -> Lines | None:
    """Leave out sentences above and below the code, never a line that looks like code."""
    first = next((i for i, text in enumerate(lines.texts) if _OPENING.match(text)), None)
    if first is None:
        return None
    head = lines.texts[:first] if not _reads("\n".join(lines.texts[:first])) else ()
    kept = list(enumerate(lines.texts))[len(head) :]
    last = max((n for n, (_, text) in enumerate(kept) if text[:1].isspace() and text.strip()), default=-1)
    fault_at = _fault_line("\n".join(text for _, text in kept))
    tail = []
    if fault_at is not None and fault_at - 1 > last:
        tail = [text for _, text in kept[fault_at - 1 :] if text.strip()]
        if any(_CODE_LINE.match(text) for text in tail):
            return None
        kept = kept[: fault_at - 1]
    left_out = [text.strip() for text in (*head, *tail) if text.strip()]
    if not left_out:
        return None
    return lines.kept(kept, f"left out what is not Python: {shortened(left_out[0])}")


def _untabbed(lines: Lines) -> Lines | None:
    """Turn tabs into spaces at the width, of the usual ones, at which the text makes sense."""
    tries = (wrappings.untabbed(lines, width) for width in (4, 8, 2))
    return next((found for found in tries if found is not None and parsed(found) is not None), None)


def shortened(text: str, width: int = 60) -> str:
    """Return the text on one line of limited width."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def _reads(text: str) -> bool:
    return _fault_line(text) is None


def _fault_line(text: str) -> int | None:
    try:
        tree(text)
    except SyntaxError as fault:
        return fault.lineno or 1
    return None


def _explained(fault: SyntaxError, lines: Lines) -> NotAProblem:
    line, message = fault.lineno, str(fault.msg)
    message = re.sub(r" \((?:<unknown>|detected at)[^)]*\)", "", re.sub(r" on line \d+\b", "", message))
    shown = shortened(lines.texts[min(line, len(lines.texts)) - 1].strip()) if line else ""
    if "nested too deeply" in message:
        return NotAProblem("syntax_error", message, "Paste one module of ordinary code.", lines.number(line))
    other = _other_language(lines)
    if other:
        return NotAProblem("not_pytorch", other, "Paste a PyTorch nn.Module.", lines.number(line))
    if any(text.startswith("Traceback (most recent call last)") for text in lines.texts):
        hint = "Paste the module itself."
        return NotAProblem("not_pytorch", "this is an error message, not a module", hint, lines.number(line))
    if line and _is_cut_off(message, line, lines):
        hint = "Paste the whole module: the end is missing."
        return NotAProblem("truncated", f"the code seems to be cut off: {message}", hint, lines.number(line))
    hint = f"Correct it and paste again: {shown}" if shown else "Correct it and paste again."
    return NotAProblem("syntax_error", message, hint, lines.number(line))


def _other_language(lines: Lines) -> str | None:
    """Say what the text is when it is not meant to be Python."""
    filled = [text.strip() for text in lines.texts if text.strip()]
    if not any(_CODE_LINE.match(text) for text in filled):
        return "this is not Python code"
    if sum(
        text.endswith((";", "{", "}", "*/")) or text.startswith(("#include", "//", "</", "<")) for text in filled
    ) * 2 >= len(filled):
        return "this is code of another language, not Python"
    return None


def _is_cut_off(message: str, line: int, lines: Lines) -> bool:
    """Tell an end that is missing from a mistake in the middle: after a cut nothing follows at the same level."""
    if "unterminated triple-quoted" in message:
        return True
    if "unterminated string" in message:
        return line == len(lines.texts)
    if not _CUT_OFF.search(message):
        return line == len(lines.texts) and _OPEN_END.search(lines.texts[-1]) is not None
    if "was never closed" in message:
        indent = _indent(lines.texts[line - 1])
        below = [text for text in lines.texts[line:] if text.strip()]
        return all(_indent(text) > indent or text.strip()[0] in ")]}" for text in below)
    return line >= len(lines.texts)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
