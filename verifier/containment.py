"""A candidate's process as a trial sees it: a contained child that may hang, crash, lie or leave, or this process."""

from __future__ import annotations

import re
import secrets
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any

from verifier import turns
from verifier.children import Child, Limits
from verifier.errors import VerificationError
from verifier.nursery import Nursery
from verifier.processors import delayed
from verifier.trial import Answer, Failed
from verifier.wire import BrokenFrame

MEMORY = 6 << 30
OUTPUT_BYTES = 32 << 20
BUSY = 4
"""How many times as long a candidate may take on a machine that others use, as far as it waited for them."""


class Contained:
    """A candidate in a child of its own, inside the sandbox."""

    def __init__(self, nursery: Nursery, device: str, target: str = "verifier.candidate:serve") -> None:
        memory = MEMORY if device == "cpu" else 0  # CUDA reserves address space far beyond what it uses
        limits = Limits(memory=memory, cpu_seconds=600, file_bytes=OUTPUT_BYTES)
        self._nonce, self._device = "", device
        self._is_new = True  # it was not called yet
        self._child: Child = nursery.spawn(target, interpret=device == "cpu", limits=limits)

    def send(self, message: Answer, blobs: Sequence[Any] = ()) -> None:
        """Send a request whose answer is asked for later, with `receive`; the answer must name the request's nonce."""
        self._nonce = secrets.token_hex(16)
        self._child.send({**message, "nonce": self._nonce}, blobs)

    def ask(self, message: Answer, blobs: Sequence[Any], limit: float) -> tuple[Answer, list[bytes]]:
        """Send a request and wait for its answer."""
        compiles = self._is_new and message["do"] == "run"  # for seconds: nobody who measures waits for that
        self._is_new = self._is_new and not compiles
        with nullcontext() if compiles else turns.shared_on(self._device):
            self.send(message, blobs)
            return self.receive(limit)

    def receive(self, limit: float) -> tuple[Answer, list[bytes]]:
        """Wait for an answer; a process that hangs is killed, one that is gone is explained."""
        try:
            frame = self._frame(limit)
        except BrokenFrame as fault:
            self._child.kill()
            raise Failed("cheat", f"tampering: the process sent {fault}") from fault
        if frame is not None:
            if frame[0].pop("nonce", None) != self._nonce:
                raise Failed("cheat", "tampering: an answer was sent that is not the verifier's own")
            return frame
        ended = self._child.channel.ended
        left = self._child.kill()
        if left == "lost":
            raise VerificationError("verifier_unavailable", "the verifier's processes were ended", "try again")
        if not ended:
            raise Failed("timeout", f"no result after {limit:.0f} s: the candidate was stopped")
        raise _explained(left, self._child.output(1 << 16))

    def _frame(self, limit: float) -> tuple[Answer, list[bytes]] | None:
        """Wait for a message; the time that the child itself waited for a processor does not count, within reason."""
        began, before = time.monotonic(), delayed(self._child.pid)
        left = limit
        while left > 0:
            frame = self._child.receive_frame(left)
            if frame is not None or self._child.channel.ended:
                return frame
            allowed = min(limit + delayed(self._child.pid) - before, BUSY * limit)
            left = allowed - (time.monotonic() - began)
        return None

    def printed(self) -> tuple[int, str]:
        """Return how much was printed, and the beginning of it."""
        return self._child.printed(), self._child.output()

    def begin(self, message: Answer, limit: float) -> None:
        """Tell a child what it needs to know before there is a candidate, and wait until it has taken that."""
        self._child.send(message)
        self._child.receive(limit)

    def finish(self, limit: float) -> None:
        """Say that there are no more requests, and wait for the child to come to its end."""
        self._child.channel.finish()
        self._child.receive(limit)

    def stop(self) -> None:
        """Kill the child from another thread than the one that waits for its answer, which then hears of its end."""
        self._child.stop()

    def close(self) -> None:
        """Kill the child and everything it started."""
        self._child.close()


def _explained(ended: str, printed: str) -> Failed:
    kind, _, number = ended.partition(" ")
    if kind == "exit":
        return Failed("process_exit", f"the candidate ended its process (exit status {number})", printed[-2000:])
    if kind == "signal" and number.isdigit():
        name = signal.Signals(int(number)).name
        if name in ("SIGXCPU", "SIGKILL"):
            return Failed("timeout" if name == "SIGXCPU" else "memory_limit", f"the candidate was stopped by {name}")
        if re.search(r"MemoryError|bad_alloc|out of memory", printed):
            return Failed("memory_limit", "the candidate ran out of memory")
        return Failed("crash", f"the candidate's process crashed ({name})", printed[-2000:])
    return Failed("crash", "the candidate's process is gone", printed[-2000:])


class InProcess:
    """A candidate in this very process: no protection, for debuggers and notebooks."""

    def __init__(self, device: str) -> None:
        from verifier.candidate import Session

        self._folder = tempfile.TemporaryDirectory(prefix="kernelllm-")
        self._session = Session(device, self._folder.name, instruments(device), contained=False)

    def ask(self, message: Answer, blobs: Sequence[Any], limit: float) -> tuple[Answer, list[bytes]]:
        """Answer the request here."""
        answer, made = self._session.answer(message, [bytes(memoryview(blob)) for blob in blobs])
        return answer, [bytes(memoryview(blob)) for blob in made]

    def printed(self) -> tuple[int, str]:
        """What is printed goes where this process prints."""
        return 0, ""

    def close(self) -> None:
        """Remove the scratch folder."""
        self._folder.cleanup()


@cache
def instruments(device: str) -> Any:
    """Instrument Triton in this process, once."""
    from verifier.candidate import instrument

    return instrument(device)
