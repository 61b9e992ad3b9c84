"""A forked child as its owner holds it, and the control connection through which it was asked for. No torch here."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from verifier.errors import VerificationError
from verifier.wire import Channel

START_LIMIT = 120.0


@dataclass(frozen=True)
class Limits:
    """What a child may use. Zero means no limit of ours."""

    memory: int = 0  # bytes of address space beyond what the child starts with
    cpu_seconds: int = 0
    file_bytes: int = 64 << 20
    open_files: int = 1024


class Child:
    """A forked process: its own session, stdin empty, what it prints kept in memory, a channel of its own."""

    def __init__(self, pid: int, sock: socket.socket, output: int, forks: Forks) -> None:
        self.pid = pid
        self.channel = Channel(sock)
        self.exit: str | None = None
        self._output, self._forks = output, forks

    def send(self, message: dict[str, Any], blobs: Sequence[Any] = ()) -> None:
        """Send a message, with raw blobs behind it."""
        self.channel.send(message, blobs)

    def receive(self, timeout: float | None = None) -> dict[str, Any] | None:
        """Return the next message; None when the time is over or the child is gone."""
        return self.channel.receive(timeout)

    def receive_frame(self, timeout: float | None = None) -> tuple[dict[str, Any], list[bytes]] | None:
        """Return the next message with its blobs; None as in `receive`."""
        return self.channel.receive_frame(timeout)

    def printed(self) -> int:
        """Return how many bytes the child printed so far."""
        return os.fstat(self._output).st_size if self._output >= 0 else 0

    def output(self, limit: int = 4000) -> str:
        """Return the beginning of what the child printed."""
        return os.pread(self._output, limit, 0).decode("utf-8", "replace") if self._output >= 0 else ""

    def kill(self) -> str:
        """End the child and everything it started, at once; return how it ended."""
        if self.exit is None:
            gone = self.channel.ended
            if not gone:
                self._strike()
            self.exit = self._forks.end(self.pid, grace=0.5 if gone else 0.0)
            self.channel.close()
        return self.exit

    def stop(self) -> None:
        """Kill the child and hang up, while another thread may be waiting for its answer."""
        if self.exit is None:
            self._strike()
            self.channel.hang_up()

    def _strike(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # it is not reaped before we ask, so the number is still its own

    def close(self) -> None:
        """Kill the child at once, without waiting for how it ended, and forget what it printed."""
        if self.exit is None:
            self._strike()
            self.exit = "stopped"
            self._forks.forget(self.pid)
            self.channel.close()
        if self._output >= 0:
            os.close(self._output)
            self._output = -1

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Forks:
    """A control connection to one forking process. When it closes, every child asked for through it dies."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        self._serial = 0

    def spawn(self, target: str, limits: Limits, extra: Sequence[int], env: Mapping[str, str]) -> Child:
        """Fork a child that calls "package.module:function" with its channel."""
        ours, theirs = socket.socketpair()
        output = os.memfd_create("output", os.MFD_CLOEXEC)
        request = {"op": "spawn", "target": target, "limits": asdict(limits), "env": dict(env)}
        try:
            answer = self.ask(request, [theirs.fileno(), output, *extra])
        except BaseException:
            ours.close()
            os.close(output)
            raise
        finally:
            theirs.close()
        return Child(answer["pid"], ours, output, self)

    def end(self, pid: int, grace: float = 0.0) -> str:
        """Kill, sweep up and reap a child; return how it ended. With `grace` it may end by itself first."""
        try:
            return str(self.ask({"op": "end", "pid": pid, "grace": grace})["exit"])
        except VerificationError:  # the forking process is gone, and it takes its children along
            return "lost"

    def forget(self, pid: int) -> None:
        """Have a child killed, swept up after and reaped, without waiting for it."""
        self.tell({"op": "forget", "pid": pid})

    def tell(self, request: dict[str, Any]) -> None:
        """Send a request that has no answer."""
        with self._lock, contextlib.suppress(OSError):
            self._sock.send(json.dumps(request).encode())

    def attach(self, sock: socket.socket) -> None:
        """Give the forking process one more control connection."""
        self.ask({"op": "attach"}, [sock.fileno()])

    def ask(self, request: dict[str, Any], fds: Sequence[int] = ()) -> dict[str, Any]:
        """Send one request and wait for its answer."""
        with self._lock:
            self._serial += 1
            try:
                socket.send_fds(self._sock, [json.dumps({**request, "serial": self._serial}).encode()], list(fds))
                self._sock.settimeout(START_LIMIT)
                answer = self._answer()
            except OSError as fault:
                raise VerificationError(
                    "verifier_unavailable", f"the verifier's process does not answer: {fault}"
                ) from fault
        if not answer:
            raise VerificationError("verifier_unavailable", "the verifier's process is gone", "try again")
        if "error" in answer:
            raise VerificationError("verifier_unavailable", answer["error"])
        return answer

    def _answer(self) -> dict[str, Any]:
        """Wait for the answer to the newest request; {} when the other side is gone.

        Ctrl-C can end the waiting for an answer, which then comes before the next one: it is passed over, and a
        child that nobody waits for any more is given back.
        """
        while data := self._sock.recv(1 << 16):
            answer: dict[str, Any] = json.loads(data)
            if answer.get("serial") == self._serial:
                return answer
            if "pid" in answer:
                self._sock.send(json.dumps({"op": "forget", "pid": answer["pid"]}).encode())
        return {}

    def close(self) -> None:
        """Hang up: ends all children of this connection."""
        self._sock.close()

    def fileno(self) -> int:
        """Return the descriptor, to hand the connection to a child."""
        return self._sock.fileno()
