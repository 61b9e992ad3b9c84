"""A seccomp filter through ctypes: refuses network, programs, new processes and signals to others with EPERM.

Threads stay allowed. The filter is a list of (syscall, condition) pairs compiled to classic BPF.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from dataclasses import dataclass

_LOAD, _JUMP_EQ, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _REFUSE, _NO_SUCH_CALL = 0x7FFF0000, 0x00050001, 0x00050026  # EPERM, ENOSYS
_KILL = 0x80000000
_NUMBER, _ARCH, _ARG0_LOW, _ARG2_LOW, _ARG2_HIGH = 0, 4, 16, 32, 36
_CLONE_THREAD = 0x00010000
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


@dataclass(frozen=True)
class _Machine:
    arch: int
    calls: dict[str, int]


_X86_64 = _Machine(
    0xC000003E,
    {
        "setitimer": 38,
        "alarm": 37,
        "timer_create": 222,
        "socket": 41,
        "clone": 56,
        "fork": 57,
        "vfork": 58,
        "execve": 59,
        "kill": 62,
        "ptrace": 101,
        "setrlimit": 160,
        "chroot": 161,
        "mount": 165,
        "umount2": 166,
        "reboot": 169,
        "init_module": 175,
        "tkill": 200,
        "tgkill": 234,
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "unshare": 272,
        "perf_event_open": 298,
        "prlimit64": 302,
        "setns": 308,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "finit_module": 313,
        "bpf": 321,
        "execveat": 322,
        "userfaultfd": 323,
        "rt_sigqueueinfo": 129,
        "rt_tgsigqueueinfo": 297,
    },
)
_AARCH64 = _Machine(
    0xC00000B7,
    {
        "setitimer": 103,
        "timer_create": 107,
        "socket": 198,
        "clone": 220,
        "execve": 221,
        "kill": 129,
        "ptrace": 117,
        "setrlimit": 164,
        "chroot": 51,
        "mount": 40,
        "umount2": 39,
        "reboot": 142,
        "init_module": 105,
        "tkill": 130,
        "tgkill": 131,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "unshare": 97,
        "perf_event_open": 241,
        "prlimit64": 261,
        "setns": 268,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "finit_module": 273,
        "bpf": 280,
        "execveat": 281,
        "userfaultfd": 282,
        "rt_sigqueueinfo": 138,
        "rt_tgsigqueueinfo": 240,
    },
)
_EVERYWHERE = {
    "pidfd_send_signal": 424,
    "io_uring_setup": 425,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "pidfd_open": 434,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
}
_CLONE3 = 435
_PROGRAMS = {"execve", "execveat", "fork", "vfork", "clone", "clone3"}
_TIMERS = {"setitimer", "alarm", "timer_create"}  # a handler of the candidate's could run after forward has returned


def install(libc: ctypes.CDLL, allow_programs: bool = False) -> bool:
    """Install the filter in this process for good; tell whether that worked. Needs no_new_privs."""
    machine = {"x86_64": _X86_64, "aarch64": _AARCH64}.get(platform.machine())
    if machine is None:
        return False
    program = b"".join(_program(machine, os.getpid(), allow_programs))
    code = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    return bool(libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, header, 0, 0) == 0)


def _program(machine: _Machine, own: int, allow_programs: bool) -> list[bytes]:
    code = [_op(_LOAD, _ARCH), _op(_JUMP_EQ, machine.arch, 1, 0), _op(_RETURN, _KILL), _op(_LOAD, _NUMBER)]
    if machine is _X86_64:
        code += [_op(_JUMP_SET, 0x40000000, 0, 1), _op(_RETURN, _REFUSE)]  # the x32 twins of every call
    for name, number in {**machine.calls, **_EVERYWHERE}.items():
        if not (allow_programs and name in _PROGRAMS | _TIMERS):  # ptxas may use timers of its own
            code += _rule(name, number, own)
    if not allow_programs:
        code += _when(_CLONE3, [_op(_RETURN, _NO_SUCH_CALL)])  # its flags are in memory; libc falls back to clone
    return [*code, _op(_RETURN, _ALLOW)]


def _rule(name: str, number: int, own: int) -> list[bytes]:
    refuse, allow = _op(_RETURN, _REFUSE), _op(_RETURN, _ALLOW)
    if name == "clone":  # threads only
        return _when(number, [_op(_LOAD, _ARG0_LOW), _op(_JUMP_SET, _CLONE_THREAD, 0, 1), allow, refuse])
    if name in ("kill", "tgkill"):  # itself only
        return _when(number, [_op(_LOAD, _ARG0_LOW), _op(_JUMP_EQ, own, 0, 1), allow, refuse])
    if name == "prlimit64":  # reading only: no new limit given
        return _when(
            number,
            [
                _op(_LOAD, _ARG2_LOW),
                _op(_JUMP_EQ, 0, 0, 3),
                _op(_LOAD, _ARG2_HIGH),
                _op(_JUMP_EQ, 0, 0, 1),
                allow,
                refuse,
            ],
        )
    return _when(number, [refuse])


def _when(number: int, body: list[bytes]) -> list[bytes]:
    return [_op(_JUMP_EQ, number, 0, len(body)), *body]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
