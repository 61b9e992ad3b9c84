"""The warm process behind the terminal: holds the reference and judges; nothing pasted runs where keys are read.

It speaks through its channel: what is to be expected, and requests, in; checks, one verdict or one error out.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from typing import Any

from verifier.errors import VerificationError, one_line
from verifier.judge import Judge, Settings
from verifier.nursery import Nursery
from verifier.problem import Problem
from verifier.tolerance import Precision
from verifier.verdict import Verdict
from verifier.wire import Channel

PASTED = ("pasted_module.py", "<pasted>")


def serve(channel: Channel, plain: int, interpreting: int) -> None:
    """Answer verification requests until the other side hangs up."""
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    judge = _Guarded(Nursery(socket.socket(fileno=plain), socket.socket(fileno=interpreting)), channel)
    while (request := channel.receive()) is not None:
        if "expected" in request:
            judge.prepare(Settings(**request["expected"]))
            continue
        try:
            problem, judge.seconds = _problem(request["problem"]), request["load_seconds"]
            for step in judge.judge(problem, request["kernel"], Settings(**request["settings"])):
                kind = "verdict" if isinstance(step, Verdict) else "check"
                channel.send({kind: step.to_dict() if isinstance(step, Verdict) else vars(step)})
        except VerificationError as error:
            channel.send({"error": _described(error)})
        except Exception as error:  # ours, or the pasted module's doing in this process: said, never hidden
            fault = VerificationError("verifier_error", f"the verifier failed: {one_line(error)}", "please report this")
            channel.send({"error": _described(fault)})
        judge.prepare(Settings(**request["settings"]))


def _problem(data: dict[str, Any]) -> Problem:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    return Problem(**values)


def _described(error: VerificationError) -> dict[str, Any]:
    return {"code": error.code, "message": error.message, "hint": error.hint, "line": error.line}


class _Guarded(Judge):
    """Watches the pasted module while it is loaded: one that never ends is reported with its line."""

    def __init__(self, nursery: Nursery, channel: Channel) -> None:
        super().__init__(nursery)
        self._channel, self.seconds = channel, 0.0

    def know(self, problem: Problem, device: str, seed: int | None, precision: Precision = "exact") -> Any:
        watch = threading.Timer(self.seconds, self._give_up)
        watch.daemon = True
        watch.start()
        try:
            return super().know(problem, device, seed, precision)
        finally:
            watch.cancel()

    def _give_up(self) -> None:
        frame: Any = sys._current_frames().get(threading.main_thread().ident or 0)
        line = None
        while frame is not None:
            if frame.f_code.co_filename.endswith(PASTED):
                line = frame.f_lineno
                break
            frame = frame.f_back
        error = VerificationError(
            "load_timeout",
            f"the module is still running after {self.seconds:.0f} s" + (f" (line {line})" if line else ""),
            "remove the loop, or what waits there",
            line,
        )
        self._channel.send({"error": _described(error)})
        os._exit(1)
