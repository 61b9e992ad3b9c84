"""What a paste may be wrapped in: one wrapping after the other comes off until Python reads what is left."""

from __future__ import annotations

from collections.abc import Callable

from verifier.paste import enclosed, wrappings
from verifier.paste.enclosed import OPENING
from verifier.paste.faults import CODE_LINE, explained
from verifier.paste.fences import unfenced
from verifier.paste.lines import Lines
from verifier.paste.prompts import unprompted
from verifier.paste.refusal import NotAProblem
from verifier.paste.syntax import LARGEST_CODE, Code, fault_line, parsed, shortened, tree

Mend = Callable[[Lines], Lines | None]
_OUTER: tuple[Mend, ...] = (
    enclosed.unquoted,
    lambda lines: unfenced(lines, lambda block: parsed(mended(block, _INNER)) is not None),
)
_INNER: tuple[Mend, ...] = (
    enclosed.untraced,
    wrappings.from_diff,
    wrappings.ungutted,
    wrappings.from_heredoc,
    unprompted,
    lambda lines: enclosed.undented(lines, lambda block: parsed(block) is not None),
    wrappings.dedented,
    wrappings.merged,
    wrappings.unescaped,
    wrappings.untypeset,
    wrappings.unmagical,
    lambda lines: without_prose(lines),
    lambda lines: _untabbed(lines),
)


def read(lines: Lines) -> Code:
    """Find the Python in a paste; raise NotAProblem with the line and the reason."""
    lines = mended(wrappings.from_notebook(lines) or enclosed.from_string(lines) or lines).trimmed()
    if not lines.texts:
        raise NotAProblem("empty", "nothing but prompts and blank lines was pasted", "Paste a PyTorch nn.Module.")
    if len(lines.text) > LARGEST_CODE:
        raise NotAProblem("too_large", "the text is too long to be a module", "Paste one module.")
    try:
        return Code(lines, tree(lines.text))
    except SyntaxError as fault:
        raise explained(fault, lines) from None


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
    first = next((i for i, text in enumerate(lines.texts) if OPENING.match(text)), None)
    if first is None:
        return None
    head = lines.texts[:first] if fault_line("\n".join(lines.texts[:first])) is not None else ()
    kept = list(enumerate(lines.texts))[len(head) :]
    last = max((n for n, (_, text) in enumerate(kept) if text[:1].isspace() and text.strip()), default=-1)
    fault_at = fault_line("\n".join(text for _, text in kept))
    tail = []
    if fault_at is not None and fault_at - 1 > last:
        tail = [text for _, text in kept[fault_at - 1 :] if text.strip()]
        if any(CODE_LINE.match(text) for text in tail):
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
