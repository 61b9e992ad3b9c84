"""The user's text → an exported graph, traced with fake tensors: no allocation, no GPU, any size.

This executes what was pasted, so it only ever runs in a child process.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from backends import NothingToConvert


@dataclass(frozen=True)
class Captured:
    """An exported forward, the (fake) module it came from, and the names of its inputs.

    `input_texts` holds one host expression for each leaf of the inputs ("x", "state[0]"), in the graph's order;
    `constants` the leaves that are no tensors, by their host expression.
    """

    program: ExportedProgram
    module: torch.nn.Module
    path: Path
    input_texts: tuple[str, ...]
    constants: Mapping[str, Any]


def load(path: Path) -> types.ModuleType:
    """Execute the file at `path` as a module named "problem"; never as __main__."""
    spec = importlib.util.spec_from_file_location("problem", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["problem"] = module  # dataclasses and torch look a class's module up by name
    spec.loader.exec_module(module)
    return module


def as_call(given: Any) -> tuple[list[Any], dict[str, Any]]:
    """Read what get_inputs or get_init_inputs returned as positional and keyword arguments."""
    if isinstance(given, Mapping):
        return [], dict(given)
    arguments = list(given) if not isinstance(given, torch.Tensor) else [given]
    return arguments, {}


def as_init_call(given: Any) -> tuple[list[Any], dict[str, Any]]:
    """Read init inputs, the KernelBook form `[[...], {...}]` included."""
    arguments, keywords = as_call(given)
    if len(arguments) == 2 and isinstance(arguments[0], list) and isinstance(arguments[1], dict):
        return arguments[0], arguments[1]
    return arguments, keywords


DATA_DEPENDENT = (
    "which operations run, or how large a result is, depends on the values of the inputs: "
    "one Triton program cannot stand for that"
)


def capture(path: Path, entry: str, *, dynamic: bool = True) -> Captured:
    """Trace `entry.forward` on the file's own inputs; raise NothingToConvert with the reason.

    With `dynamic` every dimension of the inputs is a symbol; without, all sizes are the file's own.
    """
    mode = _fake_mode()
    try:
        with mode, torch.no_grad():
            problem = load(path)
            arguments, keywords = as_init_call(problem.get_init_inputs())
            module = getattr(problem, entry)(*arguments, **keywords)
            inputs, named = as_call(problem.get_inputs())
            module(*_copies(inputs), **_copies(named))  # fills lazy modules, and fails here if the paste itself does
    except NothingToConvert:
        raise
    except (DataDependentOutputException, DynamicOutputShapeException) as fault:
        raise NothingToConvert("not_convertible", DATA_DEPENDENT, "", _line(fault, path)) from fault
    except Exception as fault:
        raise NothingToConvert("reference_error", *_explain(fault, path)) from fault
    bound = inspect.signature(module.forward).bind(*inputs, **named).arguments
    texts, leaves = _input_leaves(bound)
    try:
        with mode, torch.no_grad():
            program = _export(module, tuple(inputs), named, bound if dynamic else None)
    except Exception as fault:
        raise NothingToConvert("not_convertible", *_explain(fault, path)) from fault
    constants = {
        text: leaf
        for text, leaf in zip(texts, leaves, strict=True)
        if not isinstance(leaf, torch.Tensor)
    }
    return Captured(program, module, path, texts, constants)


def _fake_mode() -> FakeTensorMode:
    """Tensors that are shapes alone.

    torch remembers each one that it makes by a weak reference, and for those alone `.half()` or `.to()` in a
    constructor then fails: a parameter that is referred to cannot be swapped. Nothing here asks for the memory.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    mode.fake_tensor_converter.set_tensor_memo = lambda tensor, fake: None  # type: ignore[method-assign, assignment]
    return mode


def _copies(inputs: Any) -> Any:
    return pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, inputs)


def _export(
    module: torch.nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], bound: dict[str, Any] | None
) -> ExportedProgram:
    """Export with every dimension of the arguments in `bound` a symbol, or with the sizes as they are."""

    def free(leaf: Any) -> Any:
        return dict.fromkeys(range(leaf.dim()), Dim.AUTO) if isinstance(leaf, torch.Tensor) else None

    shapes = pytree.tree_map(free, bound) if bound is not None else None
    return torch.export.export(module, inputs, named, dynamic_shapes=shapes, strict=False)


def _input_leaves(bound: dict[str, Any]) -> tuple[tuple[str, ...], list[Any]]:
    texts, leaves = [], []
    for name, argument in bound.items():
        for keys, leaf in pytree.tree_flatten_with_path(argument)[0]:
            path = pytree.keystr(keys)
            texts.append(name + path)
            leaves.append(leaf)
    return tuple(texts), leaves


def _explain(fault: Exception, path: Path) -> tuple[str, str, int | None]:
    """Say what went wrong in one line, with the user's line it happened at."""
    kind = type(fault).__name__
    text = " ".join(str(fault).split()) or kind
    if "GuardOnDataDependentSymNode" in kind or "data-dependent" in text:
        return DATA_DEPENDENT, "Split the module at that line.", _line(fault, path)
    return f"{kind}: {text[:300]}", "", _line(fault, path)


def _line(fault: Exception, path: Path) -> int | None:
    """Return the user's line that an exception came through last."""
    line, trace = None, fault.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
