"""Where children come from: one process with torch and triton imported that never ran an op, forking on request.

This is the asking side; it imports no torch. The forking side is zygote.py.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from verifier.children import Child, Forks, Limits
from verifier.errors import VerificationError

_KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_.*|TZ|TMPDIR|VIRTUAL_ENV|PYTHONPATH|PYTHONHOME|LD_LIBRARY_PATH|XDG_.*"
    r"|CUDA_.*|NVIDIA_.*|NCCL_.*|TORCH.*|PYTORCH_.*|TRITON_.*|OMP_.*|MKL_.*|HF_HOME|HF_HUB_.*|CC|CXX"
)
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL", re.IGNORECASE)
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from verifier.zygote import main; main(sys.argv[2:])"


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """Keep the variables children need; an allow-list, so that no key or token is ever inherited."""
    return {k: v for k, v in environment.items() if _KEPT.fullmatch(k) and not _SECRET.search(k)}


class Nursery:
    """The forking processes: one as Triton is on a GPU (compiling), one with Triton's interpreter switched on."""

    def __init__(self, plain: socket.socket | None = None, interpreting: socket.socket | None = None) -> None:
        self._forks: tuple[Forks, Forks] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = ""
        if plain is not None and interpreting is not None:
            self._forks = Forks(plain), Forks(interpreting)

    def start(self) -> None:
        """Start the process without waiting for it; importing torch takes it a second or two."""
        if self._forks is not None and (self._process is None or self._process.poll() is None):
            return
        self.close()
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
        try:
            self._folder = tempfile.mkdtemp(prefix="kernelllm-")  # ours, so that it also goes when they are killed
            self._process = _forking([their.fileno() for _, their in pairs], self._folder)
        except OSError as fault:
            raise VerificationError("verifier_unavailable", f"the verifier cannot be started: {fault}") from fault
        finally:
            for _, their in pairs:
                their.close()
        self._forks = Forks(pairs[0][0]), Forks(pairs[1][0])

    def spawn(
        self,
        target: str,
        *,
        interpret: bool = False,
        limits: Limits | None = None,
        extra: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
    ) -> Child:
        """Fork a child that calls "package.module:function" with its channel (and the `extra` descriptors)."""
        self.start()
        assert self._forks is not None
        return self._forks[interpret].spawn(target, limits or Limits(), extra, env or {})

    def ahead(self, modules: Sequence[str]) -> None:
        """Have modules imported, where children are asked for without the interpreter, once there is time for it."""
        self.start()
        assert self._forks is not None
        self._forks[0].tell({"op": "ahead", "modules": list(modules)})

    def rest(self, *, is_resting: bool) -> None:
        """Say whether there is time now: until the first child is asked for there is, after that only when said."""
        if self._forks is not None:
            self._forks[0].tell({"op": "rest", "is_resting": is_resting})

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
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""


def _forking(fds: list[int], folder: str) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).resolve().parent.parent)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _BOOT, root, folder, *map(str, fds)],  # -P: the user's torch.py is not torch
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=scrubbed(os.environ),
        cwd=_here(),
        pass_fds=fds,
        start_new_session=True,
    )


def _here() -> str:
    """Return the folder we are in, or the root where somebody has removed it."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"


def _wait(process: subprocess.Popen[bytes], seconds: float = 2.0) -> None:
    """Wait a moment for the process to notice; one that is still importing will, and then removes its folders."""
    started = time.monotonic()
    while process.poll() is None and time.monotonic() - started < seconds:
        time.sleep(0.005)
