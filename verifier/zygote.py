"""The forking side of the nursery: imports torch and triton once, runs no op, and forks children on request.

It reaps its children, sweeps up what they left running, and owns their scratch folders.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verifier.wire import Channel

_FOR_CANDIDATES = ("verifier.candidate", "triton.language.extra.cuda.libdevice", "numpy.ma")
_FOR_REFERENCES = (
    "verifier.worker", "torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes", "torch._dynamo",
    "verifier.gpu_compile", "triton.backends.nvidia.compiler", "triton.compiler", "torch.utils.flop_counter", "torch.export",
)  # fmt: skip
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: list[str]) -> None:
    """Import what children need, split into the compiling and the interpreting process, and serve both."""
    plain, interpreting = (socket.socket(fileno=int(fd)) for fd in arguments)
    os.environ["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
    os.environ.pop("TRITON_INTERPRET", None)
    import numpy  # noqa: F401
    import torch  # noqa: F401

    sibling = os.fork()
    if sibling == 0:
        plain.close()
        os.environ["TRITON_INTERPRET"] = "1"  # read when triton.language decorates its own library, so before the import
        _serve(_House([interpreting], [*_FOR_CANDIDATES]))
    else:
        interpreting.close()
        _serve(_House([plain], [*_FOR_REFERENCES], sibling))


@dataclass
class _House:
    """The children of this process: whose they are, and their scratch folders."""

    connections: list[socket.socket]
    later: list[str]
    sibling: int = 0
    owners: dict[int, socket.socket] = field(default_factory=dict)
    folders: dict[int, str] = field(default_factory=dict)
    root: str = field(default_factory=lambda: tempfile.mkdtemp(prefix="kernelllm-"))


def _serve(house: _House) -> None:
    """Answer until the first connection closes, then end all children."""
    first = house.connections[0]
    status = 0
    try:
        with contextlib.suppress(ImportError):  # not everywhere; the candidate's child says so itself
            import triton
            import triton.language
            import triton.runtime.interpreter  # noqa: F401
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
        while first in house.connections:
            ready = select.select(house.connections, [], [], 0 if house.later else None)[0]
            for connection in ready:
                _answer(house, connection)
            if not ready:
                _import_next(house)
    except KeyboardInterrupt:
        status = 1
    finally:
        for pid in list(house.owners):
            _end(house, pid)
        _sweep(house)
        shutil.rmtree(house.root, ignore_errors=True)
    os._exit(status)


def _import_next(house: _House) -> None:
    """Use an idle moment to import what most children will need."""
    with contextlib.suppress(ImportError):
        importlib.import_module(house.later.pop(0))
    if not house.later:
        gc.collect()
        gc.freeze()  # shared with the children as it is: a collection would copy every page


def _answer(house: _House, connection: socket.socket) -> None:
    try:
        data, fds, _, _ = socket.recv_fds(connection, 1 << 16, 16)
    except OSError:
        data, fds = b"", []
    if not data:
        house.connections.remove(connection)
        connection.close()
        for pid in [pid for pid, owner in house.owners.items() if owner is connection]:
            _end(house, pid)
        return
    try:
        answer = _do(house, connection, json.loads(data), fds)
    except OSError as fault:
        answer = {"error": f"no child could be started: {fault}"}
    finally:
        for fd in fds:
            os.close(fd)
    if answer is not None:
        with contextlib.suppress(OSError):
            connection.send(json.dumps(answer).encode())


def _do(house: _House, connection: socket.socket, request: dict[str, Any], fds: list[int]) -> dict[str, Any] | None:
    if request["op"] == "attach":
        house.connections.append(socket.socket(fileno=os.dup(fds[0])))
        return {}
    if request["op"] == "forget":
        _end(house, request["pid"])
        return None
    if request["op"] == "end":
        return {"exit": _end(house, request["pid"])}
    folder = tempfile.mkdtemp(dir=house.root)
    pid = os.fork()
    if pid == 0:
        _become(request, folder, fds)
    house.owners[pid], house.folders[pid] = connection, folder
    return {"pid": pid}


def _end(house: _House, pid: int) -> str:
    if house.owners.pop(pid, None) is None:
        return "unknown"
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    _sweep(house)
    shutil.rmtree(house.folders.pop(pid), ignore_errors=True)
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"


def _sweep(house: _House) -> None:
    """Kill what dead children left behind: as subreaper we inherit it, whatever session it hides in."""
    for _ in range(64):  # a killed process hands its own children over in turn
        left = [pid for pid in _own_children() if pid not in house.owners and pid != house.sibling]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _own_children() -> list[int]:
    text = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in text.read_text().split()] if text.exists() else []


def _become(request: dict[str, Any], folder: str, fds: list[int]) -> None:
    """Turn this forked process into the child and never return."""
    code = 70
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        channel_fd, output, *extra = fds
        empty = os.open(os.devnull, os.O_RDONLY)
        for fd, place in ((empty, 0), (output, 1), (output, 2)):
            os.dup2(fd, place)
        _close_all_but({0, 1, 2, channel_fd, *extra})
        os.chdir(folder)
        os.environ.update(request["env"], TMPDIR=folder, TRITON_CACHE_DIR=folder + "/triton")
        tempfile.tempdir = None
        _limit(request["limits"])
        module, _, name = request["target"].partition(":")
        getattr(importlib.import_module(module), name)(Channel(socket.socket(fileno=channel_fd)), *extra)
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _close_all_but(kept: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _limit(limits: dict[str, int]) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    wanted = {
        resource.RLIMIT_AS: now + limits["memory"] if limits["memory"] else 0,
        resource.RLIMIT_CPU: limits["cpu_seconds"],
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
    }
    for kind, value in wanted.items():
        if value:
            resource.setrlimit(kind, (value, value))
