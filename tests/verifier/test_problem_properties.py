"""Facts about reading a paste that hold for any text."""
# ruff: noqa: E501  (a paste is easier to read on one line)

from __future__ import annotations

import random
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verifier.test_problem import CLEAN, WRAPPED
from verifier.problem import NotAProblem, Problem

PIECES = st.sampled_from(
    ["```", "```python\n", ">>> ", "... ", "In [1]: ", '"""', "(", ")", "\t", "\0", "\x1b[31m", "\r", "@@ -1 +1 @@\n", "+", "-",
     "\\", "\n", "    ", "隐", "\ud800", "self.", 'device="cuda"', ".cuda()", "from . import x\n", "%magic\n", "&lt;", "“", "import einops\n",
     "lambda x: x", "global y\n", 'if __name__ == "__main__":\n', "return", "@torch.compile\n", "{", ";"]
)  # fmt: skip


def outcome(text: str) -> Problem | None:
    """Parse, or None for what is refused; anything but NotAProblem fails the test."""
    try:
        return Problem.parse(text)
    except NotAProblem as refusal:
        assert refusal.code and refusal.message and (refusal.line is None or refusal.line >= 1)
        return None


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but NotAProblem ever comes out."""
    outcome(text)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Also of unreadable bytes."""
    try:
        Problem.read(data)
    except NotAProblem as refusal:
        assert refusal.code


@settings(max_examples=250, deadline=None)
@given(
    st.sampled_from(sorted(WRAPPED)), st.lists(st.tuples(st.integers(0, 900), PIECES, st.integers(0, 30)), max_size=4)
)
def test_reading_again_changes_nothing(name: str, damage: list[tuple[int, str, int]]) -> None:
    """However damaged the paste: what it was read as is read as itself."""
    text = WRAPPED[name]
    for place, piece, removed in damage:
        text = text[:place] + piece + text[place + removed :]
    problem = outcome(text)
    if problem is not None:
        assert Problem.parse(problem.source).source == problem.source


def test_reading_is_fast_enough_for_every_keystroke() -> None:
    """A 1,000-line module takes well under 0.15 s at its best of three, the same text again takes nothing."""
    method = "\n".join(f"    def step_{n}(self, x):\n        return x * {n} + self.fc(x)\n" for n in range(320))
    text = CLEAN.replace("    def forward", method + "\n    def forward")
    assert text.count("\n") > 950
    assert min(seconds(text + f"# {random.random()}\n") for _ in range(3)) < 0.15
    seconds(text)
    assert min(seconds(text) for _ in range(3)) < 0.005


def seconds(text: str) -> float:
    """Return the processor time of reading a text."""
    started = time.process_time()
    Problem.parse(text)
    return time.process_time() - started
