"""What the verifier found → what the next request says about it. Only words: the prompt is the backend's."""

from __future__ import annotations

from collections.abc import Sequence

from repl.turn import Candidate, Turn
from verifier.verdict import Verdict

REMEMBERED = 8
"""Earlier attempts that are still mentioned, one line each: enough not to repeat them, little enough to be read."""

TRACE_LIMIT = 1500


def feedback_of(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """Return one line for each earlier attempt and the newest one in full, oldest first."""
    if not candidates:
        return ()
    newest = candidates[-1]
    earlier = [f"Tried before: {_line(c.verdict)}" for c in candidates[-1 - REMEMBERED : -1]]
    best = Turn(candidates=tuple(candidates)).best
    if best and best is not newest and best.verdict.passed:
        earlier.append(f"The best correct file so far ({_line(best.verdict)}):\n{_fenced(best.kernel)}")
    return (*earlier, f"{_findings(newest.verdict)}\nThe file this is about:\n{_fenced(newest.kernel)}")


def _findings(verdict: Verdict) -> str:
    if verdict.passed:
        left = f" Still left to PyTorch: {', '.join(verdict.in_pytorch)}." if verdict.in_pytorch else ""
        return f"The last answer is correct ({_line(verdict)}).{left} Make it faster without losing correctness."
    lines = [f"The last answer failed: {_line(verdict)}"]
    lines += [f"- {check.name}: {check.detail}" for check in verdict.checks if check.outcome == "fail" and check.detail]
    if verdict.trace:
        lines.append(verdict.trace[-TRACE_LIMIT:])  # the end of a traceback names the cause
    return "\n".join(lines)


def _line(verdict: Verdict) -> str:
    if not verdict.passed:
        return f"{verdict.code}: {verdict.message}"
    if verdict.timing:
        timing = verdict.timing
        return f"right, {timing.kernel_ms:.4g} ms, {timing.speedup:.2f} times the speed of eager PyTorch"
    return "right"


def _fenced(kernel: str) -> str:
    return f"```python\n{kernel.strip()}\n```"
