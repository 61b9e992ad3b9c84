"""A forked process becomes a child: own session, empty stdin, captured output, limits, one function to call."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

from verifier.wire import Channel

_PR_SET_PDEATHSIG = 1


def become(request: dict[str, Any], folder: str, fds: list[int]) -> NoReturn:
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
        _warm_cache(folder)
        _limit(request["limits"])
        module, _, name = request["target"].partition(":")
        channel = Channel(socket.socket(fileno=channel_fd))  # open until the very end: hanging up means gone
        getattr(importlib.import_module(module), name)(channel, *extra)
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


def _warm_cache(folder: str) -> None:
    """Start with a copy of the Triton cache that a warm-up left, if one did (a GPU's driver helpers)."""
    seed = os.path.join(os.path.dirname(folder), "seed")
    if os.path.isdir(seed):
        shutil.copytree(seed, os.path.join(folder, "triton"), dirs_exist_ok=True)


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
