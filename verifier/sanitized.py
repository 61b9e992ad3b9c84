"""A candidate's child under compute-sanitizer: a child of ours starts it, and in it once more what a child is.

It answers the same requests. When its owner has no more, it ends, and only then is the report complete.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from verifier import sanitizer
from verifier.wire import Channel

_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from verifier.sanitized import answer; answer(int(sys.argv[2]))"
_ALLOCATIONS = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
"""Every tensor its own allocation: else what lies beside one belongs to PyTorch's pool, and nobody minds."""


def serve(channel: Channel) -> None:
    """Start the program, let what runs in it answer, and say how it ended."""
    request = channel.receive()
    if request is None:
        return
    channel.send({"begun": True})  # whatever comes next is for whoever answers inside
    root = str(Path(__file__).resolve().parent.parent)
    inner = [sys.executable, "-P", "-c", _BOOT, root, str(channel.fileno())]
    outer = sanitizer.command(request["program"], request["tool"], request["log"])
    environment = {**os.environ, **_ALLOCATIONS}
    done = subprocess.run([*outer, *inner], pass_fds=[channel.fileno()], env=environment, check=False)
    channel.send({"ended": done.returncode})


def answer(descriptor: int) -> None:
    """Be a candidate's child, inside the program."""
    from verifier import candidate

    candidate.serve(Channel(socket.socket(fileno=descriptor)))
