"""The answer of a language model, streamed: what is code, what is not, and which file is meant at the end."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from backends import Chunk
from backends.reply import Splitter, chunks

KERNEL = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
ANSWER = f"Here it is:\n\n```python\n{KERNEL}```\nEnjoy.\n"


def joined(stream: list[Chunk], kind: str) -> str:
    return "".join(chunk.text for chunk in stream if chunk.kind == kind)


def test_fenced_answer() -> None:
    """Code is what stands in the fence, prose the rest, and the fence itself is neither."""
    stream = list(chunks([ANSWER]))
    assert joined(stream, "code") == KERNEL
    assert joined(stream, "prose") == "Here it is:\n\nEnjoy.\n"
    assert joined(stream, "final") == KERNEL


@given(st.lists(st.integers(0, len(ANSWER)), max_size=12))
def test_cut_anywhere(cuts: list[int]) -> None:
    """Where the stream is cut into pieces changes nothing."""
    edges = [0, *sorted(cuts), len(ANSWER)]
    stream = list(chunks([ANSWER[a:b] for a, b in pairwise(edges)]))
    assert (joined(stream, "code"), joined(stream, "prose")) == (KERNEL, "Here it is:\n\nEnjoy.\n")


def test_windows_line_ends() -> None:
    """Carriage returns are no part of the kernel, wherever the stream is cut."""
    stream = list(chunks(list(ANSWER.replace("\n", "\r\n"))))
    assert joined(stream, "code") == KERNEL == joined(stream, "final")


def test_code_streams_before_its_line_ends() -> None:
    """A line that cannot be a fence is passed on at once."""
    splitter = Splitter()
    list(splitter.feed("```python\n"))
    assert list(splitter.feed("x = to")) == [Chunk("code", "x = to")]
    assert "".join(chunk.text for chunk in splitter.feed("rch\n")) == "rch\n"


def test_think_tags_split_between_pieces() -> None:
    """Reasoning is told apart also when its tags arrive in pieces, and is no part of the kernel."""
    text = f"<think>maybe ```python\nno\n```</think>{ANSWER}"
    stream = list(chunks(list(text)))
    assert joined(stream, "reasoning") == "maybe ```python\nno\n```"
    assert joined(stream, "final") == KERNEL


def test_answered_when_the_fence_closes_after_modelnew() -> None:
    """The writer may stop the model once the file is complete, and not before."""
    splitter = Splitter()
    list(splitter.feed("```python\nx = 1\n```\nand\n```python\n" + KERNEL))
    assert not splitter.answered
    list(splitter.feed("```\n"))
    assert splitter.answered


def test_other_languages_are_prose() -> None:
    """A shell block is no code of ours."""
    stream = list(chunks(["```bash\npip install x\n```\n" + ANSWER]))
    assert joined(stream, "code") == KERNEL


def test_cut_answer_says_so() -> None:
    """A cut answer ends with the reason after what arrived."""
    stream = list(chunks(["```python\nimport torch\nclass Mod"], cut="it reached 12 tokens"))
    assert stream[-1] == Chunk("cut", "it reached 12 tokens")
    assert joined(stream, "code") == "import torch\nclass Mod"


def test_an_answer_that_ends_inside_its_block_was_cut() -> None:
    """A model that stopped without a word about it is found out; a complete file without its last fence is not."""
    assert list(chunks([ANSWER[:60]]))[-1] == Chunk("cut", "it ends in the middle of its code block")
    assert list(chunks([ANSWER.removesuffix("```\nEnjoy.\n")]))[-1] == Chunk("final", KERNEL)


def test_nested_longer_fence() -> None:
    """A fence of four backticks is not closed by three."""
    inner = KERNEL + 'DOC = """\n```\nusage\n```\n"""\n'
    stream = list(chunks([f"````python\n{inner}````\n"]))
    assert joined(stream, "code") == inner
