"""Interactive sessions: the prompts of Python and IPython come off, what was printed in between is left out."""

from __future__ import annotations

import re

from verifier.paste.lines import Lines

_PYTHON = re.compile(r"[ \t]*(?:>>>|\.\.\.)(?: |$)")
_IPYTHON = re.compile(r"[ \t]*(?:In \[\d*\]:|\.{3,}:)(?: |$)")
_CODE = re.compile(r"(?:import|from|class|def|@)\s*\w")


def unprompted(lines: Lines) -> Lines | None:
    """Keep what was typed at >>> or In [n]: prompts, or None where the text is no session."""
    for pattern, opening in ((_PYTHON, ">>>"), (_IPYTHON, "In [")):
        first = next((i for i, text in enumerate(lines.texts) if text.lstrip().startswith(opening)), None)
        # Prompts below code are a docstring's: they must stay.
        if first is None or any(_CODE.match(text) for text in lines.texts[:first]):
            continue
        typed = [(i, text[match.end() :]) for i, text in enumerate(lines.texts) if (match := pattern.match(text))]
        printed = sum(1 for text in lines.texts if text.strip() and not pattern.match(text))
        also = f" and {printed} line{'s' * (printed > 1)} of output" if printed else ""
        return lines.kept(typed, f"took out the {opening.rstrip('[ ')} prompts{also}")
    return None
