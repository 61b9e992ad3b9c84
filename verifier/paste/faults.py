"""Why Python cannot read a paste, in words: another language, an end that is missing, or a mistake on a line."""

from __future__ import annotations

import re

from verifier.paste.lines import Lines
from verifier.paste.refusal import NotAProblem
from verifier.paste.syntax import shortened

CODE_LINE = re.compile(r"[ \t]*(?:(?:import|from|class|def|async|@|return|if|for|while|with|try|#)\b|@\w|.*[=(])")
"""Lines that look like Python: prose does not start or contain what these do."""
_CUT_OFF = re.compile(
    r"was never closed|unterminated triple-quoted|expected an indented block|unexpected EOF|'\w+' block"
)
_OPEN_END = re.compile(
    r"(?:[-+*/%@=<>,.&|(\[{:\\]|\b(?:in|and|or|not|if|else|import|from|as|def|class|lambda|for|is|with))\s*$"
)


def explained(fault: SyntaxError, lines: Lines) -> NotAProblem:
    """Turn a SyntaxError into a refusal with the line as pasted."""
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
    if not any(CODE_LINE.match(text) for text in filled):
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
