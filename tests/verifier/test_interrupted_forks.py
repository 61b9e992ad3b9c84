"""A request to the forking process that is interrupted while it waits, as Ctrl-C does."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from verifier.children import Forks


class ForkingSide:
    """Plays the forking process: answers nothing until it is told to."""

    def __init__(self) -> None:
        ours, self.sock = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.forks = Forks(ours)

    def receive(self) -> dict[str, object]:
        """Return the next request."""
        data, fds, _, _ = socket.recv_fds(self.sock, 1 << 16, 16)
        for fd in fds:
            os.close(fd)
        return dict(json.loads(data))

    def answer(self, request: dict[str, object], **answer: object) -> None:
        """Answer a request."""
        self.sock.send(json.dumps({**answer, "serial": request["serial"]}).encode())


@pytest.fixture
def side() -> Iterator[ForkingSide]:
    """A forking process that is played."""
    side = ForkingSide()
    yield side
    side.forks.close()
    side.sock.close()


def test_a_late_answer_is_not_taken_for_the_next(side: ForkingSide) -> None:
    """The answer to an interrupted request is passed over, and the child in it is given back."""
    with pytest.MonkeyPatch.context() as patch:

        def interrupt() -> dict[str, object]:
            raise KeyboardInterrupt

        patch.setattr(side.forks, "_answer", interrupt)
        with pytest.raises(KeyboardInterrupt):
            side.forks.ask({"op": "spawn"})
    late, asked = side.receive(), {}

    def play() -> None:
        asked.update(side.receive())
        side.answer(late, pid=41)
        side.answer(asked, exit="exit 0")

    playing = threading.Thread(target=play)
    playing.start()
    assert side.forks.end(7) == "exit 0"
    playing.join()
    assert asked["op"] == "end"
    assert side.receive() == {"op": "forget", "pid": 41}
