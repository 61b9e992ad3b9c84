"""A file's name at the prompt: typed, or dropped on the terminal, which pastes its path."""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"(?P<quote>['\"]?)(?:file://)?(?P<path>[^\n'\"]+\.(?:py|ipynb|md|txt|patch|diff))(?P=quote)")


def dropped(text: str) -> Path | None:
    """Return the file that the text names, or None where it is no path of an existing file."""
    named = _NAME.fullmatch(text.strip())
    if named is None:
        return None
    path = named["path"] if named["quote"] else named["path"].replace("\\ ", " ")
    try:
        file = Path(path).expanduser()
        return file if file.is_file() else None
    except (OSError, ValueError, RuntimeError):  # a name too long, or with a NUL in it, or of nobody's home
        return None
