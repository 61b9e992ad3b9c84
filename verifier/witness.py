"""What a candidate does besides computing: network, programs, files, replaced functions, threads, global settings.

The sandbox prevents; this notices and names, also where the candidate swallows the refusal.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

try:
    import triton
except ImportError:
    triton = None

_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "pty.spawn")
_STARTERS = ("/subprocess.py", "/platform.py")
"""Parts of Python that start programs for others: Triton asks `platform` what to call its launcher."""
_PROCESSES = ("os.fork", "os.forkpty", "os.kill", "os.killpg", "sys.addaudithook")
_NETWORK = ("socket.__new__", "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "urllib.Request")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_WATCHED = (
    "torch",
    "torch.nn",
    "torch.nn.functional",
    "torch.testing",
    "torch.cuda",
    "torch.autograd",
    "triton",
    "triton.runtime.jit",
    "triton.runtime.interpreter",
    "triton.runtime.autotuner",
    "triton.testing",
    "time",
    "json",
    "hashlib",
    "struct",
    "gc",
    "verifier.encoding",
    "verifier.tree",
    "verifier.launches",
    "verifier.ops",
    "verifier.wire",
    "verifier.cases",
    "verifier.witness",
    "verifier.running",
    "verifier.candidate",
    "verifier.interpreter.memory",
)
_WATCHED_CLASSES = (
    ("torch", "Tensor"),
    ("torch.nn", "Module"),
    ("triton.runtime.jit", "JITFunction"),
    ("triton.runtime.jit", "KernelInterface"),
    ("triton.runtime.autotuner", "Autotuner"),
    ("triton.runtime.interpreter", "InterpretedFunction"),
    ("triton.runtime.interpreter", "GridExecutor"),
    ("triton.runtime.interpreter", "InterpreterBuilder"),
    ("verifier.ops", "Ops"),
    ("verifier.launches", "Trace"),
    ("verifier.interpreter.memory", "Memory"),
    ("verifier.wire", "Channel"),
)


_ROOTS = tuple(os.path.dirname(module.__file__ or "/") + "/" for module in (torch, triton) if module is not None)


@dataclass
class Witness:
    """Watches this process from `start` on."""

    scratch: str
    programs: tuple[str, ...] = ()
    events: list[str] = field(default_factory=list)
    _known: dict[str, dict[str, Any]] = field(default_factory=dict)
    _settings: dict[str, Any] = field(default_factory=dict)
    _changed: dict[str, None] = field(default_factory=dict)
    _threads: set[int | None] = field(default_factory=set)
    _mine: int = 0

    def start(self, audit: bool = True) -> None:
        """Begin to watch; an audit hook cannot be taken away again, so only a process of the candidate's own has it."""
        self._known = {name: dict(vars(thing)) for name, thing in _watched()}
        self._settings = _settings()
        self._threads = {thread.ident for thread in threading.enumerate()}
        self._mine = os.getpid()
        if audit:
            sys.addaudithook(self._audit)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        what = self._refused(event, args)
        if what is not None:
            if what not in self.events:
                self.events.append(what)
            raise PermissionError(f"the candidate {what}")

    def _refused(self, event: str, args: tuple[Any, ...]) -> str | None:
        if event == "open":
            return self._write(args)
        if event in _PROGRAMS:
            return None if self._own_program() else "starts a program"
        if event in _NETWORK:
            return "uses the network"
        if event in _PROCESSES and not (event == "os.kill" and args[0] == self._mine):
            return f"calls {event}"
        return None

    def _write(self, args: tuple[Any, ...]) -> str | None:
        path, _, flags = args
        if not (isinstance(flags, int) and flags & _WRITES) or not isinstance(path, (str, bytes)):
            return None
        place = os.path.abspath(os.fsdecode(path))
        if place == self.scratch or place.startswith((self.scratch + "/", "/dev/")):  # itself: an unnamed file in it
            return None
        return f"writes {place}"

    def _own_program(self) -> bool:
        """Whether it is Triton itself that starts its compiler, as it does for a GPU."""
        frame: Any = sys._getframe(3) if self.programs else None
        while frame is not None and frame.f_code.co_filename.endswith(_STARTERS):
            frame = frame.f_back
        return frame is not None and frame.f_code.co_filename.startswith(self.programs)

    def replaced(self) -> list[str]:
        """Name the functions of torch, Triton, Python and the verifier that were exchanged."""
        found = []
        for name, thing in _watched():
            now = vars(thing)
            for key, old in self._known.get(name, {}).items():
                if callable(old) and now.get(key) is not old and not _innocent(name, now.get(key)):
                    found.append(f"{name}.{key}")
        return found

    def settings(self) -> list[str]:
        """Name the global settings that were ever changed, and put them back."""
        now = _settings()
        for name, value in self._settings.items():
            if now[name] != value:
                self._changed[name] = None
                _RESTORE[name](value)
        return list(self._changed)

    def threads(self) -> int:
        """Count the threads that were started and still run."""
        return sum(thread.ident not in self._threads for thread in threading.enumerate() if thread.is_alive())


def _innocent(place: str, new: Any) -> bool:
    """Whether torch or Triton replaced its own function, as torch does when it loads its compiler."""
    if place.startswith("verifier"):
        return False
    code = getattr(new, "__code__", None)
    if code is not None:
        return any(code.co_filename.startswith(root) for root in _ROOTS)
    return isinstance(new, type) and new.__module__.partition(".")[0] in ("torch", "triton")


def _watched() -> list[tuple[str, Any]]:
    things: list[tuple[str, Any]] = [(name, sys.modules[name]) for name in _WATCHED if name in sys.modules]
    for module, name in _WATCHED_CLASSES:
        if hasattr(sys.modules.get(module), name):
            things.append((f"{module}.{name}", getattr(sys.modules[module], name)))
    return things


def _settings() -> dict[str, Any]:
    return {
        "the default dtype": torch.get_default_dtype(),
        "the default device": str(torch.get_default_device()),
        "gradients": torch.is_grad_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "the float32 matmul precision": torch.get_float32_matmul_precision(),
        "the working directory": os.getcwd(),
    }


_RESTORE: dict[str, Callable[[Any], Any]] = {
    "the default dtype": torch.set_default_dtype,
    "the default device": torch.set_default_device,
    "gradients": torch.set_grad_enabled,
    "deterministic algorithms": torch.use_deterministic_algorithms,
    "the float32 matmul precision": torch.set_float32_matmul_precision,
    "the working directory": os.chdir,
}
