"""What the verifier found → what the next request says about it. Only words: the prompt is the backend's.

The model's own reasoning is never told again, and of earlier files only the one in question and the best.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from repl.turn import Candidate, Turn
from verifier.verdict import Verdict

REMEMBERED = 8
"""Earlier attempts that are still mentioned, one line each: enough not to repeat them, little enough to be read."""

TRACE_LIMIT = 1500
SAID_LIMIT = 300

_FRAME = re.compile(r'  File "([^"]+)", line (\d+), in (\S+)')
_BETWEEN = ("Traceback ", "The above exception", "During handling")

AROUND = 3
"""Lines of the kernel that are quoted before and after the one a message names."""


def feedback_of(candidates: Sequence[Candidate], about: Candidate | None = None) -> tuple[str, ...]:
    """Return one line for each other attempt, the best file, and the one in question in full, oldest first.

    `about` is the candidate to go on from, by default the newest.
    """
    if not candidates:
        return ()
    about = about or candidates[-1]
    others = [c for c in candidates if c is not about]
    told = [f"Tried before: {_line(c.verdict)}" for c in others[-REMEMBERED:]]
    best = Turn(candidates=tuple(candidates)).best
    if best and best is not about and best.verdict.passed:
        told.append(f"The best correct file so far ({_line(best.verdict)}):\n{_fenced(best.kernel)}")
    file = f"\nThe file this is about:\n{_fenced(about.kernel)}" if about.kernel.strip() else ""
    return (*told, _findings(about) + file)


def _findings(candidate: Candidate) -> str:
    verdict = candidate.verdict
    if verdict.passed:
        left = f" Still left to PyTorch: {', '.join(verdict.in_pytorch)}." if verdict.in_pytorch else ""
        return f"This file is correct ({_line(verdict)}).{left} {_lever(verdict)}"
    lines = [f"The answer failed: {_line(verdict)}"]
    if verdict.code == "no_code":
        return "\n".join([*lines, *_said_instead(candidate.prose)])
    failed = [check for check in verdict.checks if check.outcome == "fail"]
    lines += [f"- {check.name}: {check.detail}" for check in failed if check.detail not in verdict.message]
    lines += [f"- inputs made smaller for the test: {check.detail}" for check in verdict.checks if check.name == "size"]
    passed = [check.name for check in verdict.checks if check.outcome == "pass"]
    if passed:
        lines.append(f"- passed before that: {', '.join(passed)}")
    lines += _quoted(candidate.kernel, verdict)
    return "\n".join([*lines, *_traced(verdict.trace)])


def _said_instead(prose: str) -> list[str]:
    """Repeat the beginning of an answer without code, and say what is wanted."""
    words = " ".join(prose.split())
    said = [f"- it began: {words[:SAID_LIMIT]}{'…' * (len(words) > SAID_LIMIT)}"] if words else []
    return [*said, "- answer with the one code block at once, and with nothing around it"]


def _traced(trace: str) -> list[str]:
    """Return a traceback's frames in the kernel's own file, and its errors: no other file is the model's to mend."""
    kept: list[str] = []
    ours = begun = "\n  File " not in f"\n{trace}"  # the beginning of a long one is cut off, anywhere
    for line in trace.splitlines():
        if frame := _FRAME.match(line):
            begun, ours = True, frame[1].endswith("kernel.py")
            kept += [f"in {frame[3]}, line {frame[2]}:"] if ours else []
        elif begun and not line.startswith("    "):
            ours = True
            kept += [line] if line.strip() and not line.startswith(_BETWEEN) else []
        elif ours:
            kept.append(line)
    text = "\n".join(kept)[-TRACE_LIMIT:]  # its end names the cause
    return [text] if text else []


def _lever(verdict: Verdict) -> str:
    """Name what most likely makes a correct kernel faster."""
    timing = verdict.timing
    if timing is None:
        return "Make it faster without losing correctness."
    if timing.roofline is not None and timing.roofline > 0.85:
        return "It is close to what the device allows: only reading or writing less can make it faster."
    if timing.roofline is not None:
        share = f"It reaches {timing.roofline:.0%} of what the device allows."
    else:
        share = "Make it faster without losing correctness."
    rival = timing.compile_ms
    behind = f" torch.compile takes {rival:.4g} ms." if rival and rival < timing.kernel_ms else ""
    return f"{share}{behind} Fuse more, move less memory, or choose other block sizes and num_warps; stay correct."


def _quoted(kernel: str, verdict: Verdict) -> list[str]:
    """Quote the lines around the one that the message names."""
    found = re.search(r"\bline (\d+)\b", verdict.message)
    rows = kernel.splitlines()
    if not found or not 1 <= int(found[1]) <= len(rows):
        return []
    at = int(found[1])
    first, last = max(at - AROUND, 1), min(at + AROUND, len(rows))
    quoted = [f"{'>' if n == at else ' '} {n:4} {rows[n - 1]}" for n in range(first, last + 1)]
    return [f"Around line {at}:", *quoted]


def _line(verdict: Verdict) -> str:
    if not verdict.passed:
        return f"{verdict.code}: {verdict.message}"
    if verdict.timing:
        timing = verdict.timing
        return f"right, {timing.kernel_ms:.4g} ms, {timing.speedup:.2f} times the speed of eager PyTorch"
    return "right"


def _fenced(kernel: str) -> str:
    return f"```python\n{kernel.strip()}\n```"
