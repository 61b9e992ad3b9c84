"""A conversation that is recorded is replayed exactly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends import BackendUnavailable, Chunk, NothingToConvert, Request
from backends.drawing import drawing_of
from backends.recorded import Recorded
from backends.recording import Recording, mark_of

SAID = [Chunk("status", "loading"), Chunk("reasoning", "hm ü"), Chunk("code", "x = 1\n"), Chunk("final", "x = 1\n")]


class Speaker:
    """A backend that says the same, with the candidate's number in it, and has three answers."""

    name = "speaker"

    def write(self, request: Request) -> Iterator[Chunk]:
        """Say it."""
        if request.candidate == 3:
            raise NothingToConvert("no_more", "there is no other", "that is all", 3)
        if request.candidate == 4:
            raise BackendUnavailable("it fell over", "set it up again")
        yield from (Chunk(chunk.kind, chunk.text + str(request.candidate)) for chunk in SAID)

    def close(self) -> None:
        """Nothing is held."""


def request(candidate: int, **more: object) -> Request:
    """Ask for a candidate."""
    return Request("SOURCE", "Model", candidate=candidate, **more)  # type: ignore[arg-type]


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """A recording of three answers, two of them drawn together and in another order."""
    path = tmp_path / "talk.jsonl"
    recording = Recording(Speaker(), str(path))
    list(recording.write(request(2)))
    drawing = recording.draw(2)
    for candidate in (1, 0):
        drawing.add(request(candidate))
    while drawing.receive() is not None:
        pass
    drawing.close()
    for candidate in (3, 4):
        with pytest.raises((NothingToConvert, BackendUnavailable)):
            list(recording.write(request(candidate)))
    return path


def test_each_request_gets_its_answer(tape: Path) -> None:
    """The order in which they were recorded does not matter, nor how much time there is."""
    replay = Recorded(str(tape))
    for candidate in range(3):
        expected = list(Speaker().write(request(candidate)))
        assert list(replay.write(request(candidate, seconds=candidate + 1.0))) == expected


def test_faults_are_replayed(tape: Path) -> None:
    """Also what a backend could not do, with its words and its hint."""
    replay = Recorded(str(tape))
    with pytest.raises(NothingToConvert, match="no other") as nothing:
        list(replay.write(request(3)))
    assert (nothing.value.code, nothing.value.line) == ("no_more", 3)
    with pytest.raises(BackendUnavailable, match="fell over"):
        list(replay.write(request(4)))


def test_another_request_gets_the_next_answer(tape: Path) -> None:
    """A prompt that has changed since is answered in order, and at the end there is nothing left."""
    replay = Recorded(str(tape))
    answers = ["".join(c.text for c in replay.write(request(n, feedback=("new",)))) for n in range(3)]
    assert [answer[-1] for answer in answers] == ["2", "1", "0"]
    with pytest.raises(NothingToConvert):
        list(replay.write(request(3)))
    with pytest.raises(BackendUnavailable):
        list(replay.write(request(4)))
    with pytest.raises(NothingToConvert, match="all were replayed"):
        list(replay.write(request(5)))


def test_what_was_stopped_is_kept(tmp_path: Path) -> None:
    """Ctrl-C keeps the part that was written."""
    path = tmp_path / "talk.jsonl"
    drawing = drawing_of(Recording(Speaker(), str(path)), 1)
    drawing.add(request(0))
    drawing.receive()
    drawing.close()
    assert [kind for _, kind, _ in json.loads(path.read_text())["chunks"]] == ["status"]


def test_marks() -> None:
    """All that shapes an answer is in the mark; the time it may take is not."""
    others = (request(0), request(1), request(0, feedback=("x",)), request(0, seed=1), request(0, instructions="x"))
    assert len(set(map(mark_of, others))) == 5 and mark_of(request(0, seconds=3.0)) == mark_of(request(0))


@pytest.mark.parametrize("content", ["", "no json\n", '{"chunks": 1}\n'])
def test_what_is_no_recording(tmp_path: Path, content: str) -> None:
    """A file of something else is told as that."""
    path = tmp_path / "talk.jsonl"
    path.write_text(content)
    with pytest.raises(BackendUnavailable, match="no recording"):
        Recorded(str(path))


def test_a_place_that_cannot_be_written() -> None:
    """A recording that cannot be kept is refused before anything is asked."""
    with pytest.raises(BackendUnavailable, match="cannot be written"):
        Recording(Speaker(), "/no/such/folder/talk.jsonl")
