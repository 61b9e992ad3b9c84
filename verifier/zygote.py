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
import select
import shutil
import signal
import socket
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verifier.birth import become
from verifier.processors import processors

_FOR_CANDIDATES = ("verifier.candidate", "triton.language.extra.cuda.libdevice", "numpy.ma")
_FOR_REFERENCES = (
    "verifier.worker",
    "torch._subclasses.fake_tensor",
    "torch.fx.experimental.symbolic_shapes",
    "torch._dynamo",
    "verifier.gpu_compile",
    "triton.backends.nvidia.compiler",
    "triton.compiler",
    "torch.utils.flop_counter",
    "torch.export",
)
_PR_SET_CHILD_SUBREAPER = 36
_PROCESSORS = processors()


def main(arguments: list[str]) -> None:
    """Import what children need, split into the compiling and the interpreting process, and serve both."""
    folder, *fds = arguments
    plain, interpreting = (socket.socket(fileno=int(fd)) for fd in fds)
    os.environ["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
    os.environ.pop("TRITON_INTERPRET", None)
    import numpy  # noqa: F401
    import torch  # noqa: F401

    sibling = os.fork()
    if sibling == 0:
        plain.close()
        os.environ["TRITON_INTERPRET"] = "1"  # read once, when triton.language is imported
        _serve(_House([interpreting], [*_FOR_CANDIDATES], root=_room(folder)))
    else:
        interpreting.close()
        _serve(_House([plain], [*_FOR_REFERENCES], root=_room(folder), sibling=sibling))


@dataclass
class _House:
    """The children of this process: whose they are, and their scratch folders."""

    connections: list[socket.socket]
    later: list[str]
    root: str
    sibling: int = 0
    is_resting: bool = False  # nobody waits for anything: the children that there are do not work
    owners: dict[int, socket.socket] = field(default_factory=dict)
    folders: dict[int, str] = field(default_factory=dict)


def _room(folder: str) -> str:
    return tempfile.mkdtemp(dir=folder)


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
            ready = select.select(house.connections, [], [], 0.02 if has_time(house) else None)[0]
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
        with contextlib.suppress(OSError):  # the other process has its folder there still, or the owner was faster
            os.rmdir(os.path.dirname(house.root))
    os._exit(status)


def has_time(house: _House, processors: int = _PROCESSORS) -> bool:
    """Tell whether there is something to import and nobody who needs the processor more.

    A child at work does, unless there are several processors: on a GPU some children are always waiting.
    """
    return bool(house.later) and (house.is_resting or not house.owners or processors >= 4)


def _import_next(house: _House) -> None:
    """Use an idle moment to import what most children will need."""
    module, _, name = house.later.pop(0).partition(":")
    with contextlib.suppress(ImportError):  # private parts of torch have other names in other releases
        imported = importlib.import_module(module)
        if name:
            getattr(imported, name)()
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
    request = json.loads(data)
    try:
        answer = _do(house, connection, request, fds)
    except OSError as fault:
        answer = {"error": f"no child could be started: {fault}"}
    finally:
        for fd in fds:
            os.close(fd)
    if answer is not None:
        with contextlib.suppress(OSError):
            connection.send(json.dumps({**answer, "serial": request.get("serial")}).encode())


def _do(house: _House, connection: socket.socket, request: dict[str, Any], fds: list[int]) -> dict[str, Any] | None:
    if request["op"] == "ahead":
        house.later[:0] = request["modules"]
        return None
    if request["op"] == "rest":
        house.is_resting = request["is_resting"]
        return None
    if request["op"] == "attach":
        house.connections.append(socket.socket(fileno=os.dup(fds[0])))
        return {}
    if request["op"] == "forget":
        _end(house, request["pid"])
        return None
    if request["op"] == "end":
        return {"exit": _end(house, request["pid"], request["grace"])}
    folder = tempfile.mkdtemp(dir=house.root)
    pid = os.fork()
    if pid == 0:
        become(request, folder, fds)
    house.owners[pid], house.folders[pid] = connection, folder
    return {"pid": pid}


def _end(house: _House, pid: int, grace: float = 0.0) -> str:
    if house.owners.pop(pid, None) is None:
        return "unknown"
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        time.sleep(0.002)
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
