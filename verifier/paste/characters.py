"""Bytes and stray characters: what a terminal, an editor or an encoding put around the text."""

from __future__ import annotations

import re

from verifier.paste.lines import Lines
from verifier.paste.refusal import NotAProblem

LARGEST = 4_000_000
"""Characters accepted at all: a notebook with pictures fits, a data file does not."""

_PASTE_MARKER = re.compile(r"(?:\x1b|\^\[)?\[20[01]~")
_ESCAPE = re.compile(
    r"\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC: window titles, links
    r"|\x1b[P^_X][^\x1b\n]*(?:\x1b\\)?"  # DCS, PM, APC, SOS
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[ -/]*[0-~]?"
)
_OVERSTRUCK = re.compile(r"[^\n\x08]\x08")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\x85\u2028\u2029]")
_CODING = re.compile(r"\A((?:[^\n]*\n)?[ \t\f]*#)[^\n]*?coding[:=][ \t]*([-\w.]+)[^\n]*")


def decoded(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Turn bytes into text and say when they were not UTF-8; raise NotAProblem for what is no text."""
    if len(data) > 4 * LARGEST:
        raise NotAProblem("too_large", "the text is too long to be a module", "Give one file with one module.")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace"), ("read as UTF-16",)
    if len(data) > 3 and data[1::2].count(0) * 4 > len(data):
        return data.decode("utf-16-le", "replace"), ("read as UTF-16",)
    if len(data) > 3 and data[0::2].count(0) * 4 > len(data):
        return data.decode("utf-16-be", "replace"), ("read as UTF-16",)
    if data.count(0) * 20 > len(data):
        raise NotAProblem("not_pytorch", "this is binary data, not text", "Give the Python source of the module.")
    try:
        return data.decode("utf-8-sig"), ()
    except UnicodeDecodeError:
        return data.decode("latin-1"), ("not UTF-8: read as Latin-1",)


def clean(text: str) -> Lines:
    """Remove what is not text and normalise line ends; raise NotAProblem when nothing is left."""
    if len(text) > LARGEST:
        raise NotAProblem("too_large", "the text is too long to be a module", "Paste one module.")
    notes = []
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if "\n" in text and "\x1a" in text:
        text = text.rstrip("\x1a \n\t") + "\n"  # the end-of-file mark of DOS editors
    if "\x1b" in text or "\x9b" in text or "[200~" in text or "[201~" in text:
        stripped = _ESCAPE.sub("", _PASTE_MARKER.sub("", text))
        if stripped != text:
            text = stripped
            notes.append("took out terminal escape codes")
    while "\x08" in text and _OVERSTRUCK.search(text):
        text = _OVERSTRUCK.sub("", text)
    text = text.replace("\x0c", "")  # form feeds mean nothing to Python, but end lines elsewhere
    if _CONTROL.search(text):
        text = _CONTROL.sub("", text)
        notes.append("took out control characters")
    text = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates cannot be compiled or written
    coding = _CODING.match(text)
    if coding and coding[2].lower().replace("_", "-") not in ("utf-8", "utf8"):
        text = text[: coding.start(2)] + "utf-8" + text[coding.end(2) :]
    if not text.strip():
        raise NotAProblem("empty", "nothing was pasted", "Paste a PyTorch nn.Module.")
    return Lines.of(text, tuple(notes))
