"""Triton's CPU interpreter made fit for judging: its faults repaired, its memory accesses watched.

Everything is patched in the candidate's own child, before the candidate is loaded; nothing else sees the patches.
"""

from __future__ import annotations

from verifier.interpreter.memory import Memory, OutOfBounds

__all__ = ["Memory", "OutOfBounds", "install"]


def install() -> Memory:
    """Repair the installed interpreter in this process and return the watch over its memory accesses."""
    from verifier.interpreter import bfloat16, folds, hooks, language, libdevice

    language.repair()
    folds.repair()
    bfloat16.repair()
    libdevice.repair()
    memory = Memory()
    hooks.install(memory)
    return memory
