"""Text that others wrote, made safe to show: nothing in it can move the cursor, ring, or reorder what is read."""

from __future__ import annotations

import re

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Return the text with control and reordering characters written out, as in \x1b; tab and newline stay."""
    return _UNSAFE.sub(lambda found: _escape(found[0]), text)


def one_line(text: str) -> str:
    """Return the text as one safe line."""
    return visible(" ".join(text.split()))


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
