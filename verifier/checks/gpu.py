"""Would a GPU take it? Every launch that was interpreted is compiled for a real target, which needs no GPU."""

from __future__ import annotations

import json
import time
from typing import Any

from verifier.children import Child
from verifier.trial import Failed, Trial
from verifier.verdict import Check

SECONDS = 45.0


class Compiler:
    """A child that compiles while the candidate runs."""

    def __init__(self, child: Child, kernel: str) -> None:
        self._child = child
        self._sent: set[str] = set()
        self._child.send({"kernel": kernel})

    def feed(self, launches: list[dict[str, Any]]) -> None:
        """Queue the launches that differ from those before."""
        for launch in launches:
            key = json.dumps([launch["qualname"], launch["signature"], launch["options"]], sort_keys=True)
            if key not in self._sent and not launch["error"]:
                self._sent.add(key)
                self._child.send({"launch": launch})

    def results(self) -> list[dict[str, Any]]:
        """Wait for what was queued."""
        deadline = time.monotonic() + SECONDS
        got: list[dict[str, Any]] = []
        while len(got) < len(self._sent):
            answer = self._child.receive(max(0.0, deadline - time.monotonic()))
            if answer is None:
                ended = self._child.channel.ended
                raise Failed(
                    "compile_error" if ended else "timeout",
                    (
                        "the compiler crashed on a kernel"
                        if ended
                        else f"a kernel does not compile within {SECONDS:.0f} s"
                    ),
                    self._child.output(),
                )
            got.append(answer)
        return got


def check(trial: Trial) -> Check:
    """Collect the compiler's answers."""
    from verifier.gpu_compile import TARGET_NAME

    if trial.compiler is None:
        return Check("compiles", "skip", "not compiled for a GPU")
    results = trial.compiler.results()
    for result in results:
        if not result["ok"]:
            raise Failed(result["code"], result["message"], result.get("trace", ""))
    skipped = sorted({result["skipped"] for result in results if "skipped" in result})
    if skipped:
        trial.warn(f"not compiled for a GPU: {skipped[0]}")
        return Check("compiles", "warn", f"not for a GPU: {skipped[0]}")
    if not results:
        return Check("compiles", "skip", "no kernel was launched")
    most = max(result["shared"] for result in results)
    return Check("compiles", "pass", f"{len(results)} for {TARGET_NAME}, {most / 1024:.0f} KB shared memory at most")
