"""A candidate's process as a trial sees it: a contained child that may hang, crash, lie or leave, or this process."""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Sequence
from functools import cache
from typing import Any

from verifier.children import Child, Limits
from verifier.errors import VerificationError
from verifier.nursery import Nursery
from verifier.trial import Answer, Failed
from verifier.wire import BrokenFrame

MEMORY = 6 << 30
OUTPUT_BYTES = 32 << 20


class Contained:
    """A candidate in a child of its own, inside the sandbox."""

    def __init__(self, nursery: Nursery, device: str) -> None:
        memory = MEMORY if device == "cpu" else 0  # CUDA reserves address space far beyond what it uses
        limits = Limits(memory=memory, cpu_seconds=600, file_bytes=OUTPUT_BYTES)
        self._child: Child = nursery.spawn("verifier.candidate:serve", interpret=device == "cpu", limits=limits)

    def send(self, message: Answer) -> None:
        """Send a request whose answer is asked for later, with `receive`."""
        self._child.send(message)

    def ask(self, message: Answer, blobs: Sequence[Any], limit: float) -> tuple[Answer, list[bytes]]:
        """Send a request and wait for its answer."""
        self._child.send(message, blobs)
        return self.receive(limit)

    def receive(self, limit: float) -> tuple[Answer, list[bytes]]:
        """Wait for an answer; a process that hangs is killed, one that is gone is explained."""
        try:
            frame = self._child.receive_frame(limit)
        except BrokenFrame as fault:
            self._child.kill()
            raise Failed("cheat", f"tampering: the process sent {fault}") from fault
        if frame is not None:
            return frame
        ended = self._child.channel.ended
        left = self._child.kill()
        if left == "lost":
            raise VerificationError("verifier_unavailable", "the verifier's processes were ended", "try again")
        if not ended:
            raise Failed("timeout", f"no result after {limit:.0f} s: the candidate was stopped")
        raise _explained(left, self._child.output(1 << 16))

    def printed(self) -> tuple[int, str]:
        """Return how much was printed, and the beginning of it."""
        return self._child.printed(), self._child.output()

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
        self._session = Session(device, self._folder.name, instruments=instruments(device))

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
