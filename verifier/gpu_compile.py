"""Compiles a candidate's kernels for a real GPU that need not be there: compile errors, shared memory over the limit.

Runs in a child without Triton's interpreter, fed with the launches that the interpreted run really made.
"""

from __future__ import annotations

import inspect
import os
import sys
import types
import uuid
from pathlib import Path
from typing import Any

from verifier import sandbox
from verifier.loading import Refused, clean, load_kernel, refusal
from verifier.wire import Channel

TARGET = ("cuda", 90, 32)
TARGET_NAME = "sm_90 (H100, H200)"
PTX_VERSION = 86
SHARED_LIMIT = 232448  # bytes one program may have there
_TYPES = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float64": "fp64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "i1",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
}


class NotCompilable(Exception):
    """The launch cannot be rebuilt here from its description; says why."""


def serve(channel: Channel) -> None:
    """Load the kernel file, then compile every launch that is sent."""
    module: types.ModuleType | None = None
    while (request := channel.receive()) is not None:
        try:
            if module is None:
                module = _load(request["kernel"])
                continue
            channel.send({"ok": True, **compile_launch(module, request["launch"])})
        except NotCompilable as why:
            channel.send({"ok": True, "skipped": str(why)})
        except Refused as refused:
            channel.send({"ok": False, **refused.described()})
            if module is None:
                return


def _load(kernel: str) -> types.ModuleType:
    scratch = os.path.realpath(os.getcwd())
    path = Path(scratch, "kernel.py")
    path.write_text(kernel, encoding="utf-8")
    Path(scratch, "triton").mkdir(exist_ok=True)
    sys.dont_write_bytecode = True
    skip_assembler()
    sandbox.confine(scratch)
    return load_kernel(path)


def skip_assembler() -> None:
    """Stop before ptxas (a program, which the sandbox refuses; what we ask is known before it), and keep no cache."""
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.compiler import compiler

    CUDABackend.make_cubin = lambda *args, **kwargs: b""
    compiler.get_cache_key = lambda *args, **kwargs: uuid.uuid4().hex  # the usual key reads all of Triton


def compile_launch(module: types.ModuleType, launch: dict[str, Any]) -> dict[str, Any]:
    """Compile one launch for the target; say what it needs there, raise Refused when a GPU would refuse it."""
    metadata = compiled(module, launch).metadata
    return {"shared": int(metadata.shared), "warps": int(metadata.num_warps)}


def compiled(module: types.ModuleType, launch: dict[str, Any]) -> Any:
    """Return Triton's compiled kernel for one launch; raise Refused when a GPU would refuse it."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = _find(module, launch["qualname"])
    signature, constants, attributes = _arguments(module, function, launch["signature"])
    source = ASTSource(function, signature, constexprs=constants, attrs=attributes)
    try:
        options = {"ptx_version": PTX_VERSION, **launch["options"]}  # otherwise ptxas is asked
        kernel = triton.compile(source, target=GPUTarget(*TARGET), options=options)
    except BaseException as error:
        raise _refused(error, str(module.__file__), launch["kernel"], function) from error
    shared = int(kernel.metadata.shared)
    if shared > SHARED_LIMIT:
        raise Refused(
            "gpu_resources",
            clean(
                f"{launch['kernel']} needs {shared // 1024} KB of shared memory, {TARGET_NAME} has "
                f"{SHARED_LIMIT // 1024} KB: use smaller blocks or fewer stages"
            ),
        )
    return kernel


def _refused(error: BaseException, file: str, kernel: str, function: Any) -> Refused:
    """Say where in the file the compiler stopped, and its last words; the rest goes into the trace."""
    failed = refusal(error, file, f"compiling {kernel} for {TARGET_NAME}")
    if failed.code in ("gpu_resources", "memory_limit"):
        return failed
    node = getattr(error, "node", None)
    line = None
    if node is not None:
        line = _first_line(function) + getattr(node, "lineno", 1) - 1
    words = [row.strip() for row in str(error).splitlines() if row.strip().strip("^")]
    cause = error.__cause__
    text = words[-1] if words else type(error).__name__
    if cause is not None and str(cause) and str(cause) not in text:
        text = f"{type(cause).__name__}: {str(cause).splitlines()[-1]}"
    where = f"line {line}, " if line and line > 0 else ""
    return Refused(
        "compile_error", clean(f"{where}{kernel} does not compile for {TARGET_NAME}: {text}"), line, failed.trace
    )


def _first_line(function: Any) -> int:
    """Return the line of the kernel's `def` in its file."""
    rows = str(function.raw_src if isinstance(function.raw_src, str) else "".join(function.raw_src)).splitlines()
    return int(function.starting_line_number) + next(
        (at for at, row in enumerate(rows) if row.strip().startswith("def ")), 0
    )


def _find(module: types.ModuleType, qualname: str) -> Any:
    from triton.runtime.jit import JITFunction

    thing: Any = module
    for name in qualname.split("."):
        thing = getattr(thing, name, None)
    while thing is not None and not isinstance(thing, JITFunction):
        thing = getattr(thing, "fn", None)  # autotune and heuristics wrap the kernel
    if thing is None:
        raise NotCompilable(f"the kernel {clean(qualname, 60)} is not at the top of the file")
    return thing


def _arguments(
    module: types.ModuleType, function: Any, described: list[dict[str, Any]]
) -> tuple[dict[str, str], dict[tuple[int], Any], dict[tuple[int], Any]]:
    given = {item["name"]: item for item in described}
    signature: dict[str, str] = {}
    constants: dict[tuple[int], Any] = {}
    attributes: dict[tuple[int], Any] = {}
    for at, parameter in enumerate(function.params):
        item = given.get(parameter.name)
        if item is None:
            if parameter.default is inspect.Parameter.empty:
                raise NotCompilable(f"the argument {parameter.name} was not seen")
            item = {"kind": "constexpr", "value": parameter.default}
        kind, constant, divisible = _argument(module, item)
        signature[parameter.name] = kind
        if kind == "constexpr":
            constants[(at,)] = constant
        if divisible:
            attributes[(at,)] = [["tt.divisibility", 16]]
    return signature, constants, attributes


def _argument(module: types.ModuleType, item: dict[str, Any]) -> tuple[str, Any, bool]:
    """Return an argument's type, its value where that is compiled in, and whether it is a multiple of 16."""
    if item["kind"] in ("pointer", "descriptor") and item["dtype"] not in _TYPES:
        raise NotCompilable(f"tensors of {item['dtype']}")
    if item["kind"] == "descriptor":
        return f"tensordesc<{_TYPES[item['dtype']]}{item['block']}>", None, False
    if item["kind"] == "pointer":
        return "*" + _TYPES[item["dtype"]], None, item["aligned"]
    value = item["value"]
    if item["kind"] == "constexpr" or value is None:
        return "constexpr", value, False
    if item["kind"] == "dtype":
        from triton import language

        return "constexpr", language.dtype(value), False
    if item["kind"] == "function":
        return "constexpr", _find(module, value), False
    if item["kind"] == "other":
        raise NotCompilable(f"an argument of type {value}")
    if item["type"] == "bool":
        return "u1", None, False
    if item["type"] == "float":
        return "fp32", None, False
    if value == 1:
        return "constexpr", 1, False
    small = -(2**31) <= value < 2**31
    return ("i32" if small else "i64"), None, value % 16 == 0
