"""Where a candidate runs: no network, no programs, no other processes, no writes outside its scratch folder.

`confine` locks the calling process for good, with what the kernel offers (Landlock, seccomp, capabilities), and says
what is missing. Time, memory and output limits are set when the child is forked (zygote.py).
"""

from __future__ import annotations

import ctypes
import sys

from verifier import landlock, seccomp

_PR_SET_NO_NEW_PRIVS = 38
_PR_CAPBSET_DROP = 24
_PR_SET_DUMPABLE = 4


def confine(scratch: str, devices: tuple[str, ...] = (), programs: tuple[str, ...] = ()) -> list[str]:
    """Lock this process into its scratch folder; return what could not be locked, in words.

    `devices` stay writable (a GPU's), `programs` may be started (ptxas, where a GPU kernel is compiled).
    """
    if sys.platform != "linux":
        return ["the sandbox needs Linux: network, files and programs are not locked"]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _drop_capabilities(libc)
    missing = []
    if not landlock.restrict(libc, (scratch, "/dev/null", "/dev/shm", *devices) if devices else (scratch, "/dev/null")):
        missing.append("writes outside the scratch folder are not blocked: this kernel has no Landlock")
    if not seccomp.install(libc, allow_programs=bool(programs)):
        missing.append("network and programs are not blocked: this kernel or processor has no seccomp filter")
    return missing


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Give up root's powers; for anybody else there is nothing to give up."""
    for capability in range(64):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    libc.capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))
