"""The verifier as the terminal holds it: opened at once, asked for verdicts, stopped by closing the generator.

Runs where keys are read, so it imports no torch and executes nothing pasted.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from verifier.children import Child
from verifier.errors import VerificationError
from verifier.nursery import Nursery
from verifier.problem import Problem
from verifier.verdict import Check, Verdict

LOAD_SECONDS = 45.0
"""How long a pasted module may take to load, construct and run once, before it counts as one that never ends."""
SILENCE = 300.0
"""Seconds without a word from the worker after which it is given up: every step within has a shorter limit."""


class Verifier(Protocol):
    """Judges kernels, and lends children to whoever must execute a paste."""

    def verify(self, problem: Problem, kernel: str, **options: Any) -> Iterator[Check | Verdict]:
        """Yield every check and the verdict last; closing the iterator stops the work at once."""
        ...

    def spawn(self, target: str) -> Child:
        """Start "package.module:function" in a fresh child that has torch imported."""
        ...

    def ahead(self, modules: Sequence[str]) -> None:
        """Import what such children will need while nobody waits."""
        ...

    def close(self) -> None:
        """End all processes."""
        ...


class WorkerVerifier:
    """Judges in a warm worker, which is started again when it died or was stopped."""

    def __init__(self, device: str = "auto", **expected: Any) -> None:
        self.device, self.load_seconds = device, LOAD_SECONDS
        self._expected = {"device": device, **expected}  # of the next verification, to be prepared for
        self._nursery = Nursery()
        self._nursery.start()
        self._worker: Child | None = None
        self._spare: Child | None = None
        self._problem: Problem | None = None

    def spawn(self, target: str) -> Child:
        """Start "package.module:function" in a fresh child that has torch imported."""
        self._nursery.rest(is_resting=False)
        child = self._nursery.spawn(target)
        self._hatch()
        return child

    def ahead(self, modules: Sequence[str]) -> None:
        """Import what such children will need while nobody waits: before the first, and after a verdict."""
        self._nursery.ahead(modules)

    def verify(self, problem: Problem, kernel: str, **options: Any) -> Generator[Check | Verdict, None, None]:
        """Yield every check and the verdict last; raise VerificationError when nothing can be judged."""
        if options.pop("in_process", False):
            yield from InProcessVerifier(self.device).verify(problem, kernel, **options)
            return
        settings = self._expected = {"device": self.device, **options}
        self._nursery.rest(is_resting=False)
        worker = self._ready(problem)
        finished = False
        try:
            request = {"problem": asdict(problem), "kernel": kernel, "settings": settings}
            worker.send({**request, "load_seconds": self.load_seconds})
            for step in _steps(worker):
                finished = isinstance(step, Verdict)
                yield step
        except VerificationError as error:
            finished = error.code not in ("verifier_unavailable", "load_timeout")
            if error.code == "verifier_unavailable":
                self.close()  # somebody ended our processes, perhaps not all of them: begin anew
            raise
        finally:
            if not finished:
                self.cancel()
            self._nursery.rest(is_resting=True)

    def _ready(self, problem: Problem) -> Child:
        """Return a worker that has run nothing but this problem: a pasted module may change its whole process."""
        if self._worker is not None and (self._worker.channel.hung_up() or problem != self._problem):
            self.cancel()
        if self._worker is None:
            self._hatch()
            self._worker, self._spare = self._spare, None
            self._problem = problem
        assert self._worker is not None
        return self._worker

    def _hatch(self) -> None:
        """Have a worker ready for the next problem: on a GPU it opens the device while nobody waits for it."""
        if self._spare is not None and self._spare.channel.hung_up():
            self._spare.close()
            self._spare = None
        if self._spare is None:
            plain, interpreting = self._nursery.lend()
            with contextlib.closing(plain), contextlib.closing(interpreting):
                fds = [plain.fileno(), interpreting.fileno()]
                self._spare = self._nursery.spawn("verifier.worker:serve", extra=fds)
            self._spare.send({"expected": self._expected})

    def cancel(self) -> None:
        """Stop the worker and what it started, at once; the next verification starts another."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def close(self) -> None:
        """End all processes."""
        self.cancel()
        if self._spare is not None:
            self._spare.close()
            self._spare = None
        self._nursery.close()


def _steps(worker: Child) -> Iterator[Check | Verdict]:
    while True:
        started = time.monotonic()
        message = worker.receive(SILENCE)
        if message is None:
            if not worker.channel.ended:
                raise VerificationError(
                    "verifier_unavailable", f"no answer within {time.monotonic() - started:.0f} s", "try again"
                )
            ended = worker.kill()
            if ended == "lost":
                raise VerificationError("verifier_unavailable", "the verifier's processes were ended", "try again")
            raise VerificationError(
                "reference_error",
                f"the module ended the process it was loaded in ({ended})",
                "remove os._exit, signals and whatever else ends a process",
            )
        if "error" in message:
            raise VerificationError(**message["error"])
        if "verdict" in message:
            yield Verdict.from_dict(message["verdict"])
            return
        yield Check(**message["check"])


class InProcessVerifier:
    """Judges in this very process: nothing is contained, everything can be debugged."""

    def __init__(self, device: str = "auto") -> None:
        self.device = device
        self._judge: Any = None
        self._nursery: Nursery | None = None
        _interpret_if_needed(device)  # before anything else of this process imports triton

    def spawn(self, target: str) -> Child:
        """Start "package.module:function" in a fresh child that has torch imported."""
        self._nursery = self._nursery or Nursery()
        return self._nursery.spawn(target)

    def ahead(self, modules: Sequence[str]) -> None:
        """Nothing is done ahead: there may never be a child."""

    def verify(self, problem: Problem, kernel: str, **options: Any) -> Generator[Check | Verdict, None, None]:
        """Yield every check and the verdict last; raise VerificationError when nothing can be judged."""
        options.pop("in_process", None)
        settings = {"device": self.device, **options}
        _interpret_if_needed(settings["device"])
        from verifier.judge import Judge, Settings

        self._judge = self._judge or Judge(None)
        yield from self._judge.judge(problem, kernel, Settings(**settings))

    def close(self) -> None:
        """Forget the reference."""
        self._judge = None
        if self._nursery is not None:
            self._nursery.close()


def _interpret_if_needed(device: str) -> None:
    """Switch Triton's interpreter on where there is no GPU; Triton reads that once, when it is imported."""
    import os
    import sys

    import torch

    if device != "cpu" and torch.cuda.is_available():
        return
    loaded = sys.modules.get("triton")
    if loaded is None:
        os.environ["TRITON_INTERPRET"] = "1"
    elif os.environ.get("TRITON_INTERPRET") != "1":
        raise VerificationError(
            "cannot_interpret",
            "triton was imported before TRITON_INTERPRET=1 was set, so kernels cannot be interpreted here",
            "verify before importing triton, set TRITON_INTERPRET=1, or leave in_process out",
        )
