"""Where a paste is captured: the child's end of `builtin`, speaking JSON lines with the terminal's process."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any, Protocol

from backends import NothingToConvert


class Channel(Protocol):
    """The child's socket."""

    def send(self, message: dict[str, Any]) -> None: ...
    def receive(self, timeout: float | None = None) -> dict[str, Any] | None: ...


def serve(channel: Channel) -> None:
    """Answer one request: {"source", "entry", "candidate", "precision"} → {"code"}..., then {"done"} or {"error"}."""
    request = channel.receive()
    if request is None:
        return
    warnings.filterwarnings("ignore")  # what torch has to say about the trace is not for the person
    from backends.compiler.convert import convert
    from backends.compiler.schedule import offered

    module, schedules = (request["source"], request["entry"]), offered(request["precision"])
    try:
        with tempfile.TemporaryDirectory(prefix="kernelllm-") as folder:
            for section in convert(*module, Path(folder), request["candidate"], schedules):
                channel.send({"code": section})
        channel.send({"done": True})
    except NothingToConvert as reason:
        fields = {"code": reason.code, "message": reason.message, "hint": reason.hint, "line": reason.line}
        channel.send({"error": fields})
    except Exception as fault:  # ours, and said as ours: the module is not at fault
        text = " ".join(str(fault).split())[:300]
        message = f"builtin itself failed on this module: {type(fault).__name__}: {text}"
        fields = {"code": "internal_error", "message": message, "hint": "Please report it.", "line": None}
        channel.send({"error": fields})
