"""A child that compiles as `builtin`'s does, and says at the end how long each phase of it took."""

from __future__ import annotations

import importlib
import resource
import time
from collections.abc import Callable
from typing import Any

from backends.compiler.child import Channel, serve

PHASES = {
    "load": ("capture:load", "capture:construct"),  # the paste itself
    "eager": ("convert:capture",),  # forward once without data, and what is asked of the module before the trace
    "export": ("capture:_export",),
    "lower": ("convert:lower",),
    "fuse": ("module:attended", "module:fuse", "module:squeezed"),
    "forward": ("module:Forward.write",),  # statements, names, functions and loops
    "kernels": ("parts:Parts.text",),
    "format": ("module:formatted",),
}
"""What a phase is called, and the functions that it consists of; what they call of another phase counts there."""


class _Timed:
    """Wraps functions, and adds up the seconds in each of them without those in the ones that they call."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._under_way: list[str] = []
        self._since = time.monotonic()

    def _turn(self) -> None:
        now = time.monotonic()
        if self._under_way:
            self.seconds[self._under_way[-1]] += now - self._since
        self._since = now

    def wrap(self, phase: str, place: str) -> None:
        """Time the function at `place`, "module:function" of the compiler."""
        module, _, path = place.partition(":")
        owner: Any = importlib.import_module(f"backends.compiler.{module}")
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any, **keywords: Any) -> Any:
            self._turn()
            self._under_way.append(phase)
            try:
                return function(*arguments, **keywords)
            finally:
                self._turn()
                self._under_way.pop()

        setattr(owner, name, timed)


def timed(channel: Channel) -> None:
    """Answer one request as `serve` does, then send {"phases": {name: seconds}, "processor": seconds}."""
    watch = _Timed()
    for phase, places in PHASES.items():
        for place in places:
            watch.wrap(phase, place)
    serve(channel)
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    channel.send({"phases": watch.seconds, "processor": sum(each.ru_utime + each.ru_stime for each in used)})
