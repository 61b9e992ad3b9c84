"""What the H200's compiler makes of builtin's kernels at full size: errors, spills, shared memory. Needs no GPU.

`python -m tests.benchmarks.full_size DIR|FILE...` writes the file for every problem, calls its ModelNew on tensors
without memory (PyTorch's meta device), and compiles each launch for the H100 and H200.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import triton
from triton.runtime.jit import JITFunction

from backends import NothingToConvert
from backends.compiler.convert import convert
from backends.compiler.schedule import offered
from repl.batch import find
from verifier import gpu_compile, without_gpu
from verifier.launches import Launch, describe
from verifier.loading import Refused
from verifier.problem import Problem

PTXAS = Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"


@dataclass
class Found:
    """What one launch compiles to: registers and bytes spilled a thread, bytes of shared memory; or an error."""

    kernel: str
    options: dict[str, Any]
    registers: int = 0
    spilled: int = 0
    shared: int = 0
    error: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.error:
            return f"{self.kernel}: {self.error}"
        return (
            f"{self.kernel} {self.options or ''}: {self.registers} registers, {self.spilled} bytes spilled, "
            f"{self.shared // 1024} KB shared, compiled in {self.seconds:.1f} s"
        )


@dataclass
class Tally:
    """All problems so far; a kernel that comes twice with arguments of the same kinds is compiled once."""

    problems: int = 0
    unconverted: list[str] = field(default_factory=list)
    not_called: list[str] = field(default_factory=list)
    launches: int = 0
    compiled: dict[str, Found] = field(default_factory=dict)

    def summary(self) -> str:
        """Say it in a few lines."""
        found = list(self.compiled.values())
        errors, spills = sum(bool(f.error) for f in found), sum(f.spilled > 0 for f in found)
        return (
            f"{self.problems} problems, {len(self.unconverted)} not converted, {len(self.not_called)} not called; "
            f"{self.launches} launches, {len(found)} different; {errors} do not compile or do not fit, {spills} spill; "
            f"shared memory at most {max((f.shared for f in found), default=0) // 1024} KB"
        )


def main() -> None:
    """Print what is wrong as it is found, then a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", metavar="DIR|FILE")
    parser.add_argument("--schedule", type=int, default=0, help="which of the compiler's schedules (0: the usual one)")
    parser.add_argument("--precision", choices=("exact", "fast"), default="exact", help="whose schedules")
    parser.add_argument("--all", action="store_true", help="print every kernel, not those alone that do not fit")
    arguments = parser.parse_args()
    gpu_compile.skip_assembler()
    without_gpu.install()
    tally = Tally()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        for file in find(tuple(arguments.paths)):
            _one(file, offered(arguments.precision)[arguments.schedule :][:1], tally, arguments.all)
    print(tally.summary())


def _one(file: Path, schedules: Sequence[Any], tally: Tally, everything: bool) -> None:
    began, before = time.monotonic(), tally.launches
    tally.problems += 1
    with tempfile.TemporaryDirectory() as folder:
        try:
            problem = Problem.parse(file.read_text(encoding="utf-8"))
            text = "".join(convert(problem.source, problem.entry, Path(folder), schedules=schedules))
        except NothingToConvert as reason:
            tally.unconverted.append(f"{file.stem}: {reason.message}")
            print(f"{file.stem}: not converted: {reason.message}")
            return
        written = Path(folder, "kernel.py")
        written.write_text(text, encoding="utf-8")
        module = _load(written)
        try:
            launches = list(_launches(module, _load(Path(folder, "problem.py")), problem))
        except Exception as error:
            tally.not_called.append(file.stem)
            print(f"{file.stem}: not called on tensors without memory: {type(error).__name__}: {str(error)[:200]}")
            return
        for launch in launches:
            tally.launches += 1
            key = f"{_text(module, launch)}{launch.signature}{launch.options}"
            if key not in tally.compiled:
                found = tally.compiled[key] = _compiled(module, launch)
                if everything or found.error or found.spilled:
                    print(f"{file.stem}: {found}", flush=True)
    print(f"{file.stem}: {tally.launches - before} launches, {time.monotonic() - began:.1f} s", flush=True)


def _load(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _launches(module: types.ModuleType, given: types.ModuleType, problem: Problem) -> Iterator[Launch]:
    """Call ModelNew once and collect the launches in place of making them."""
    seen: list[Launch] = []

    def collected(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        named = {**dict(zip(kernel.arg_names, args, strict=False)), **kwargs}
        if callable(grid):
            grid(named)
        seen.append(describe(kernel, named))

    run, JITFunction.run = JITFunction.run, collected
    try:
        arguments, named = _construction(given)
        model = _constructed(module.ModelNew, arguments, named)
        with torch.no_grad(), torch.device("meta"), without_gpu.CpuForCuda():
            inputs = given.get_inputs()
            model(*(_without_memory(value) for value in inputs))
    finally:
        JITFunction.run = run
    yield from seen


def _construction(given: types.ModuleType) -> tuple[list[Any], dict[str, Any]]:
    """Read get_init_inputs in both forms: a list of arguments, or [arguments, named ones]."""
    values = given.get_init_inputs() if hasattr(given, "get_init_inputs") else []
    if len(values) == 2 and isinstance(values[0], (list, tuple)) and isinstance(values[1], dict):
        return list(values[0]), values[1]
    return list(values), {}


def _constructed(cls: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
    """Construct without memory; a constructor that reads numbers gets memory, and gives it back."""
    try:
        with torch.device("meta"):
            return cls(*arguments, **named)
    except (RuntimeError, NotImplementedError):
        return cls(*arguments, **named).to("meta")


def _without_memory(value: Any) -> Any:
    return value.to("meta") if isinstance(value, torch.Tensor) else value


def _text(module: types.ModuleType, launch: Launch) -> str:
    return str(getattr(module, launch.qualname).src)


def _compiled(module: types.ModuleType, launch: Launch) -> Found:
    """Compile a launch, and assemble it to learn what only the assembler knows."""
    found, began = Found(launch.kernel, launch.options), time.monotonic()
    try:
        made = gpu_compile.compiled(module, vars(launch))
    except (Refused, gpu_compile.NotCompilable) as refused:
        found.error = str(refused)
        return found
    found.shared = int(made.metadata.shared)
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(made.asm["ptx"])
        file.flush()
        words = subprocess.run(
            [PTXAS, "-v", "--gpu-name=sm_90a", file.name, "-o", os.devnull], capture_output=True, text=True
        ).stderr
    if not (registers := re.search(r"Used (\d+) registers", words)):
        found.error = f"ptxas: {words[-300:]}"
        return found
    found.seconds = time.monotonic() - began
    found.registers = int(registers[1])
    found.spilled = sum(int(number) for number in re.findall(r"(\d+) bytes spill stores", words))
    return found


if __name__ == "__main__":
    main()
