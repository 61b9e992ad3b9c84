"""Other things a module comes wrapped in: diffs, notebooks, quoting, gutters, HTML, merges, shell lines."""

from __future__ import annotations

import html
import json
import re
from itertools import pairwise

from verifier.paste.characters import clean
from verifier.paste.lines import Lines
from verifier.paste.refusal import NotAProblem

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
_GUTTER = re.compile(r"[ \t]*(?:[\w./-]+\.py[:-])?(\d+)(?:[ \t]*[|│:]|-|\t| |$)")
_MAGIC = re.compile(r"[ \t]*(?:[%!]{1,2}[\w ./-]|\?\w|\w+\?{1,2}\s*$)")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#\d+|#x[0-9a-fA-F]+);")
_HEREDOC = re.compile(r"[ \t]*\$?[ \t]*(?:cat|tee)\b.*<<-?[ \t]*['\"]?(\w+)['\"]?")
_TYPOGRAPHIC = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "\u00a0": " ", "\u3000": " ", "\u2007": " ", "\u202f": " "}
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", "")
)


def from_notebook(lines: Lines) -> Lines | None:
    """Join the code cells of a Jupyter notebook, or None where the text is none."""
    text = lines.text.strip()
    if not text.startswith("{") or '"cells"' not in text:
        return None
    try:
        cells = json.loads(text)["cells"]
        sources = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    code = "\n\n\n".join(("".join(s) if isinstance(s, list) else str(s)).strip("\n") for s in sources)
    if not code.strip():
        raise NotAProblem("not_pytorch", "the notebook has no code cell", "Paste the cell that defines the module.")
    joined = clean(code).noted(*lines.notes, f"joined {len(sources)} code cells of the notebook")
    return unmagical(joined) or joined


def from_diff(lines: Lines) -> Lines | None:
    """Take the added side of a unified diff, or None where the text is none."""
    if not any(_HUNK.match(text) for text in lines.texts):
        filled = [text for text in lines.texts if text.strip()]
        if len(filled) < 3 or not all(text.startswith("+") for text in filled):
            return None
        return lines.kept(((i, text[1:]) for i, text in enumerate(lines.texts)), "took the + off every line")
    kept, inside, python = [], False, True
    for index, text in enumerate(lines.texts):
        if _HUNK.match(text):
            inside = True
        elif text.startswith(("diff --git", "Index: ", "--- a/", "--- /dev/null")):
            inside = False
        elif text.startswith("+++ "):
            inside, python = False, not re.search(r"\.(?!py\b|ipynb\b)\w{1,5}\s*$", text.split("\t")[0])
        elif inside and python and not text.startswith(("-", "\\")):
            kept.append((index, text[1:]))
    return lines.kept(kept, "read a diff: took the side with the + lines") if kept else None


def ungutted(lines: Lines) -> Lines | None:
    """Take line numbers (of an editor, of cat -n, of grep -n) off the left edge, where all lines have one."""
    matches = [(i, text, _GUTTER.match(text)) for i, text in enumerate(lines.texts) if text.strip()]
    if len(matches) < 3 or not all(match for _, _, match in matches):
        return None
    numbers = [int(match[1][:9]) for _, _, match in matches if match]
    if any(b <= a or b - a > 3 for a, b in pairwise(numbers)):
        return None
    pairs = [(i, text[match.end() :]) for i, text, match in matches if match]
    if all(text.startswith(" ") for _, text in pairs if text.strip()):
        pairs = [(i, text[1:]) for i, text in pairs]  # the space between the number and the line
    return lines.kept(pairs, "took the line numbers off")


def unmagical(lines: Lines) -> Lines | None:
    """Leave out %magics and !commands of notebooks; they are never run."""
    magic = [text.strip() for text in lines.texts if _MAGIC.match(text)]
    if not magic:
        return None
    kept = [(i, text) for i, text in enumerate(lines.texts) if not _MAGIC.match(text)]
    return lines.kept(kept, f"left out notebook commands ({', '.join(magic[:3])}), they are never run")


def merged(lines: Lines) -> Lines | None:
    """Keep the upper side of merge conflicts, or None where there are none."""
    if not any(text.startswith("<<<<<<< ") for text in lines.texts):
        return None
    kept, lower = [], False
    for index, text in enumerate(lines.texts):
        if text.startswith(("<<<<<<< ", ">>>>>>> ")):
            lower = False
        elif text.startswith(("=======", "||||||| ")):
            lower = True
        elif not lower:
            kept.append((index, text))
    return lines.kept(kept, "merge conflict: kept the upper side")


def from_heredoc(lines: Lines) -> Lines | None:
    """Take the text that a shell here-document writes."""
    for start, text in enumerate(lines.texts):
        if opener := _HEREDOC.match(text):
            rest = list(enumerate(lines.texts))[start + 1 :]
            end = next((n for n, (_, line) in enumerate(rest) if line.strip() == opener[1]), len(rest))
            return lines.kept(rest[:end], "took the text out of the shell command")
    return None


def unescaped(lines: Lines) -> Lines | None:
    """Turn HTML entities back into characters."""
    if not any(_ENTITY.search(text) for text in lines.texts):
        return None
    pairs = ((i, re.sub(r"[\r\n\x00\xa0]", " ", html.unescape(text))) for i, text in enumerate(lines.texts))
    return lines.kept(pairs, "turned HTML entities back into characters")


def untypeset(lines: Lines) -> Lines | None:
    """Turn typographic quotes and special spaces into plain ones."""
    pairs = [(i, text.translate(_TYPOGRAPHIC)) for i, text in enumerate(lines.texts)]
    if all(text == lines.texts[i] for i, text in pairs):
        return None
    return lines.kept(pairs, "turned typographic quotes and special spaces into plain ones")


def dedented(lines: Lines) -> Lines | None:
    """Take off the indentation that all lines have, also where the copy began inside the first line."""
    widths = [len(text) - len(text.lstrip()) for text in lines.texts if text.strip()]
    if len(widths) > 1 and not widths[0] and not lines.trimmed().texts[0].rstrip().endswith((":", "(", "[", "{", "\\")):
        widths = widths[1:]
    common = min(widths, default=0)
    if not common:
        return None
    pairs = ((i, text[common:] if not text[:common].strip() else text) for i, text in enumerate(lines.texts))
    return lines.kept(pairs, "took the common indentation off")


def untabbed(lines: Lines, width: int) -> Lines | None:
    """Turn the tabs of the indentation into spaces."""
    if not any("\t" in text[: len(text) - len(text.lstrip())] for text in lines.texts):
        return None
    pairs = []
    for index, text in enumerate(lines.texts):
        body = text.lstrip(" \t")
        pairs.append((index, text[: len(text) - len(body)].expandtabs(width) + body))
    return lines.kept(pairs, "turned tabs into spaces")
