"""Does the candidate pry into the process it runs in? Frames, objects, threads, raw memory, the module to replace.

Python reports such accesses to audit hooks; here it is told apart who is behind one: the kernel file, or a library.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
import types
from typing import Any

_OBJECTS = ("gc.get_objects", "gc.get_referrers", "gc.get_referents")
_FRAMES = ("sys._getframe", "sys._getframemodulename", "sys._current_frames", "sys._current_exceptions")
_TRACING = ("sys.settrace", "sys.setprofile")
_HELD_FRAMES = ("tb_frame", "gi_frame", "cr_frame", "ag_frame")
_MEMORY = frozenset(f"ctypes.{what}" for what in "dlopen dlsym dlsym/handle cdata string_at addressof".split())
_TREES = ("/proc", "/sys/kernel")


def pries(event: str, args: tuple[Any, ...], kernel_file: str, hidden: tuple[str, ...]) -> str | None:
    """Say what an audit event gives away about the kernel file; `hidden` are files that are not for it to read."""
    words = _words(event, args, hidden)
    if words is None:
        return None
    through: frozenset[str] = frozenset()  # libraries that only pass the question on
    if event in _FRAMES:
        through = frozenset({inspect.__file__, traceback.__file__})
    elif event == "object.__getattr__":  # a traceback may be printed
        through = frozenset({inspect.__file__})
    return words if _asked_by(kernel_file, through) else None


def _words(event: str, args: tuple[Any, ...], hidden: tuple[str, ...]) -> str | None:
    if event in _OBJECTS:
        return f"searches the process's objects ({event})"
    if event in _FRAMES or (event == "object.__getattr__" and args[1] in _HELD_FRAMES):
        return "walks the call stack"
    if event in _TRACING:
        return f"traces its caller ({event})"
    if event == "object.__setattr__" and args[1] in ("__code__", "__defaults__", "__kwdefaults__"):
        return f"rewrites {getattr(args[0], '__qualname__', 'a function')} in place"
    if event in _MEMORY or event.startswith("ctypes.cdata/"):
        return f"reads or calls past Python ({event})"
    if event == "import" and str(args[0]).partition(".")[0] == "verifier":
        return "imports the verifier"
    if event in ("open", "os.listdir", "os.scandir") and isinstance(args[0], (str, bytes)):
        place = os.path.abspath(os.fsdecode(args[0]))
        if place in hidden:
            return "reads the module that it is to replace"
        if place.startswith(_TREES):
            return f"reads {place}"
    return None


_HERE = os.path.dirname(__file__) + "/"
_WATCHES = frozenset(_HERE + name + ".py" for name in ("behind", "chance", "overrides", "prying", "witness"))
_THEIRS = ("/torch/", "/triton/")
"""Whose code may do what a candidate must not; what the standard library does, it does for whoever called it."""


def instigated_by(kernel_file: str, theirs: tuple[str, ...] = _THEIRS, through: tuple[str, ...] = ()) -> bool:
    """Tell whether the kernel file is behind what happens now, directly or through the libraries it calls.

    What is in `theirs` may do it, but not in the files that end with one of `through`: those only pass it on.
    """
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name == kernel_file:
            return True
        passes_on = name in _WATCHES or name.endswith(through)
        if not passes_on and (name.startswith(_HERE) or any(place in name for place in theirs)):
            return False
        frame = frame.f_back
    return False


def _asked_by(kernel_file: str, through: frozenset[str]) -> bool:
    """Tell whether the code that caused the current audit event is the kernel's own, or text that it executes."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "_audit":
        frame = frame.f_back
    frame = frame.f_back if frame is not None else None
    while frame is not None and frame.f_code.co_filename in through:
        frame = frame.f_back
    name = frame.f_code.co_filename if frame is not None else ""
    return name == kernel_file or (name.startswith("<") and not name.startswith(("<frozen", "<__array_function__")))
