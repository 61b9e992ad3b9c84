"""What a candidate does besides computing: network, programs, files, replaced functions, threads, global settings.

The sandbox prevents; this notices and names, also where the candidate swallows the refusal.
"""

from __future__ import annotations

import _thread
import decimal
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from verifier import behind, overrides
from verifier.chance import Chance
from verifier.places import places
from verifier.prying import instigated_by, pries

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
    "builtins",
    "numpy",
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
    kernel_file: str = ""
    hidden: tuple[str, ...] = ()
    events: list[str] = field(default_factory=list)
    chance: Chance = field(default_factory=Chance)
    places: dict[str, int] = field(default_factory=dict)  # what libraries hold without the candidate
    _watched: list[tuple[str, Any]] = field(default_factory=list)
    _known: dict[str, dict[str, Any]] = field(default_factory=dict)
    _settings: dict[str, Any] = field(default_factory=dict)
    _changed: dict[str, None] = field(default_factory=dict)
    _handlers: dict[int, Any] = field(default_factory=dict)
    _threads: int = 0
    _mine: int = 0
    _looking: bool = False

    def start(self, audit: bool = True) -> None:
        """Begin to watch; what cannot be taken away again is only done to a process of the candidate's own."""
        self._watched = _watched()
        if audit:
            behind.watch(self._refuse)
            overrides.watch(self._refuse, partial(self._refuse, through=overrides.PASSING_ON))
            self.chance.watch(lambda: instigated_by(self.kernel_file))
        self._known = {name: dict(vars(thing)) for name, thing in self._watched}
        self.places = places()
        self._settings = _settings()
        self._handlers = _handlers()
        self._threads = _thread._count()
        self._mine = os.getpid()
        if audit:
            for name in [name for name in sys.modules if name.partition(".")[0] == "verifier"]:
                del sys.modules[name]  # we go on without; nobody finds us there
            sys.addaudithook(self._audit)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if self._looking:  # to see who asks is to look at frames, which is an event too
            return
        self._looking = True
        try:
            what = self._refused(event, args) or pries(event, args, self.kernel_file, self.hidden)
        finally:
            self._looking = False
        if what is not None:
            self._note(what)

    def _refuse(self, what: str, through: tuple[str, ...] = ()) -> None:
        """Refuse something to the candidate, and to whatever else it calls; torch and Triton may have it."""
        if instigated_by(self.kernel_file, through=through):
            self._note(what)

    def _note(self, what: str) -> None:
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
            return "keeps a file" if instigated_by(self.kernel_file, ("/triton/",)) else None
        return f"writes {place}"

    def _own_program(self) -> bool:
        """Whether it is Triton itself that starts its compiler, as it does for a GPU."""
        frame: Any = sys._getframe(3) if self.programs else None
        while frame is not None and frame.f_code.co_filename.endswith(_STARTERS):
            frame = frame.f_back
        return frame is not None and frame.f_code.co_filename.startswith(self.programs)

    def replaced(self) -> list[str]:
        """Name functions of torch, Triton, Python and the verifier that were exchanged, or overridden in a class."""
        found = []
        for name, thing in self._watched:
            now, known = vars(thing), self._known.get(name, {})
            for key, old in known.items():
                if callable(old) and now.get(key) is not old and not _innocent(name, now.get(key)):
                    found.append(f"{name}.{key}")
            if isinstance(thing, type):
                added = [key for key in now.keys() - known.keys() if callable(now[key])]
                found += [f"{name}.{key}" for key in added if not _innocent(name, now[key])]
        return found + ["a signal handler"] * (_handlers() != self._handlers)

    def settings(self) -> list[str]:
        """Name the global settings that were ever changed, and put them back."""
        now = _settings()
        for name, value in self._settings.items():
            if now[name] != value:
                self._changed[name] = None
                _RESTORE[name](value)
        return list(self._changed)

    def threads(self) -> int:
        """Count the threads that were started and still run, also those that `threading` does not know."""
        return max(0, _thread._count() - self._threads)


def _innocent(place: str, new: Any) -> bool:
    """Whether torch or Triton replaced its own function, as torch does when it loads its compiler."""
    if place.startswith("verifier"):
        return False
    code = getattr(getattr(new, "func", new), "__code__", None)  # of a partial, what it calls
    if code is not None:
        return any(code.co_filename.startswith(root) for root in _ROOTS)
    return isinstance(new, type) and new.__module__.partition(".")[0] in ("torch", "triton")


def _watched() -> list[tuple[str, Any]]:
    things: list[tuple[str, Any]] = [(name, sys.modules[name]) for name in _WATCHED if name in sys.modules]
    for module, name in _WATCHED_CLASSES:
        if hasattr(sys.modules.get(module), name):
            things.append((f"{module}.{name}", getattr(sys.modules[module], name)))
    return things


def _handlers() -> dict[int, Any]:
    return {number: signal.getsignal(number) for number in signal.valid_signals()}


def _settings() -> dict[str, Any]:
    return {
        "the default dtype": torch.get_default_dtype(),
        "the default device": str(torch.get_default_device()),
        "gradients": torch.is_grad_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "the float32 matmul precision": torch.get_float32_matmul_precision(),
        "the working directory": os.getcwd(),
        "the recursion limit": sys.getrecursionlimit(),
        "how tensors are printed": vars(torch._tensor_str.PRINT_OPTS).copy(),
        "the precision of decimal": decimal.getcontext().prec,
        "the mask of new files": _umask(),
    }


def _umask() -> int:
    mask = os.umask(0o77)
    os.umask(mask)
    return mask


_RESTORE: dict[str, Callable[[Any], Any]] = {
    "the default dtype": torch.set_default_dtype,
    "the default device": torch.set_default_device,
    "gradients": torch.set_grad_enabled,
    "deterministic algorithms": torch.use_deterministic_algorithms,
    "the float32 matmul precision": torch.set_float32_matmul_precision,
    "the working directory": os.chdir,
    "the recursion limit": sys.setrecursionlimit,
    "how tensors are printed": lambda value: vars(torch._tensor_str.PRINT_OPTS).update(value),
    "the precision of decimal": lambda value: setattr(decimal.getcontext(), "prec", value),
    "the mask of new files": os.umask,
}
