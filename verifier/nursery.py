"""Where children come from: one process with torch and triton imported that never ran an op, forking on request.

This is the asking side; it imports no torch. The forking side is zygote.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from verifier.errors import VerificationError
from verifier.wire import Channel

_KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_.*|TZ|TMPDIR|VIRTUAL_ENV|PYTHONPATH|PYTHONHOME|LD_LIBRARY_PATH|XDG_.*"
    r"|CUDA_.*|NVIDIA_.*|NCCL_.*|TORCH.*|PYTORCH_.*|TRITON_.*|OMP_.*|MKL_.*|HF_HOME|HF_HUB_.*|CC|CXX"
)
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL", re.IGNORECASE)
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from verifier.zygote import main; main(sys.argv[2:])"
START_LIMIT = 120.0


@dataclass(frozen=True)
class Limits:
    """What a child may use. Zero means no limit of ours."""

    memory: int = 0  # bytes of address space beyond what the child starts with
    cpu_seconds: int = 0
    file_bytes: int = 64 << 20
    open_files: int = 1024


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """Keep the variables children need; an allow-list, so that no key or token is ever inherited."""
    return {k: v for k, v in environment.items() if _KEPT.fullmatch(k) and not _SECRET.search(k)}


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
            self._strike()
            self.exit = self._forks.end(self.pid)
            self.channel.close()
        return self.exit

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

    def spawn(self, target: str, limits: Limits, extra: Sequence[int], env: Mapping[str, str]) -> Child:
        """Fork a child that calls "package.module:function" with its channel."""
        ours, theirs = socket.socketpair()
        output = os.memfd_create("output", os.MFD_CLOEXEC)
        request = {"op": "spawn", "target": target, "limits": asdict(limits), "env": dict(env)}
        try:
            answer = self.ask(request, [theirs.fileno(), output, *extra])
        finally:
            theirs.close()
        return Child(answer["pid"], ours, output, self)

    def end(self, pid: int) -> str:
        """Kill, sweep up and reap a child; return how it ended."""
        try:
            return str(self.ask({"op": "end", "pid": pid})["exit"])
        except VerificationError:  # the forking process is gone, and it takes its children along
            return "lost"

    def forget(self, pid: int) -> None:
        """Have a child killed, swept up after and reaped, without waiting for it."""
        with self._lock, contextlib.suppress(OSError):
            self._sock.send(json.dumps({"op": "forget", "pid": pid}).encode())

    def attach(self, sock: socket.socket) -> None:
        """Give the forking process one more control connection."""
        self.ask({"op": "attach"}, [sock.fileno()])

    def ask(self, request: dict[str, Any], fds: Sequence[int] = ()) -> dict[str, Any]:
        """Send one request and wait for its answer."""
        with self._lock:
            try:
                socket.send_fds(self._sock, [json.dumps(request).encode()], list(fds))
                self._sock.settimeout(START_LIMIT)
                answer = self._sock.recv(1 << 16)
            except OSError as fault:
                raise VerificationError("verifier_unavailable", f"the verifier's process does not answer: {fault}") from fault
        if not answer:
            raise VerificationError("verifier_unavailable", "the verifier's process is gone", "try again")
        decoded: dict[str, Any] = json.loads(answer)
        if "error" in decoded:
            raise VerificationError("verifier_unavailable", decoded["error"])
        return decoded

    def close(self) -> None:
        """Hang up: ends all children of this connection."""
        self._sock.close()

    def fileno(self) -> int:
        """Return the descriptor, to hand the connection to a child."""
        return self._sock.fileno()


class Nursery:
    """The forking processes: one as Triton is on a GPU (compiling), one with Triton's interpreter switched on."""

    def __init__(self, plain: socket.socket | None = None, interpreting: socket.socket | None = None) -> None:
        self._forks: tuple[Forks, Forks] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        if plain is not None and interpreting is not None:
            self._forks = Forks(plain), Forks(interpreting)

    def start(self) -> None:
        """Start the process without waiting for it; importing torch takes it a second or two."""
        if self._forks is not None and (self._process is None or self._process.poll() is None):
            return
        self.close()
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
        theirs = [pair[1].fileno() for pair in pairs]
        root = str(Path(__file__).resolve().parent.parent)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT, root, *map(str, theirs)],  # -P: the user's torch.py is not torch
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=scrubbed(os.environ), pass_fds=theirs, start_new_session=True,
        )
        for _, their in pairs:
            their.close()
        self._forks = Forks(pairs[0][0]), Forks(pairs[1][0])

    def spawn(
        self, target: str, *, interpret: bool = False, limits: Limits | None = None,
        extra: Sequence[int] = (), env: Mapping[str, str] | None = None,
    ) -> Child:
        """Fork a child that calls "package.module:function" with its channel (and the `extra` descriptors)."""
        self.start()
        assert self._forks is not None
        return self._forks[interpret].spawn(target, limits or Limits(), extra, env or {})

    def lend(self) -> tuple[socket.socket, socket.socket]:
        """Open two more control connections, for a child that spawns children itself."""
        self.start()
        assert self._forks is not None
        lent = []
        for forks in self._forks:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            forks.attach(theirs)
            theirs.close()
            lent.append(ours)
        return lent[0], lent[1]

    def close(self) -> None:
        """End the processes and every child of theirs."""
        for forks in self._forks or ():
            forks.close()
        self._forks = None
        if self._process is not None:
            _wait(self._process)
            self._process = None


def _wait(process: subprocess.Popen[bytes], seconds: float = 2.0) -> None:
    started = time.monotonic()
    while process.poll() is None and time.monotonic() - started < seconds:
        time.sleep(0.005)
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
