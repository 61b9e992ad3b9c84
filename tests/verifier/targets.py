"""What the tests let forked children do; each function is a child's whole life."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from verifier.wire import Channel


def echo(channel: Channel) -> None:
    """Send everything back, with what the child finds around itself."""
    while (frame := channel.receive_frame()) is not None:
        message, blobs = frame
        around = {
            "triton": "triton" in sys.modules,
            "interpret": os.environ.get("TRITON_INTERPRET"),
            "cwd": os.getcwd(),
        }
        channel.send({"got": message, "around": around, "environ": dict(os.environ)}, blobs)


def imported(channel: Channel) -> None:
    """Say which of the modules named are imported."""
    while (message := channel.receive()) is not None:
        channel.send({"imported": [name for name in message["names"] if name in sys.modules]})


def hide(channel: Channel) -> None:
    """Start a grandchild in a session of its own, then sleep."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        channel.send({"pid": os.getpid()})
        time.sleep(600)
    time.sleep(600)


def flood(channel: Channel) -> None:
    """Print without end."""
    channel.send({})
    while True:
        os.write(1, b"x" * 65536)


def devour(channel: Channel) -> None:
    """Ask for more memory than is allowed."""
    try:
        bytearray(3 << 30)
    except MemoryError:
        channel.send({"refused": True})


def raises(channel: Channel) -> None:
    """Fail with an exception."""
    raise ValueError("on purpose")


def confined(channel: Channel) -> None:
    """Lock the process in, then try the door."""
    from verifier.sandbox import confine

    missing = confine(os.getcwd())
    Path("inside").write_text("fine")
    channel.send({"missing": missing, "tried": {name: _outcome(attempt) for name, attempt in _ATTEMPTS.items()}})


def _outcome(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except OSError as refused:
        return type(refused).__name__
    return "done"


_ATTEMPTS: dict[str, Callable[[], object]] = {
    "write inside": lambda: Path("inside").write_text("again"),
    "write outside": lambda: Path("/tmp/kernelllm-outside").write_text("x"),
    "remove outside": lambda: os.unlink(__file__),
    "start a program": lambda: subprocess.run(["true"], check=False),
    "fork": os.fork,
    "open a socket": socket.socket,
    "kill the parent": lambda: os.kill(os.getppid(), 0),
    "read the parent's memory": lambda: open(f"/proc/{os.getppid()}/mem", "rb").close(),
}


def unrepaired(channel: Channel) -> None:
    """Test Triton's interpreter as it is shipped."""
    from verifier.interpreter import selftest

    channel.send({"broken": selftest.broken()})
