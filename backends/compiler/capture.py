"""The user's text → an exported graph, traced with fake tensors: no allocation, no GPU, any size.

This executes what was pasted, so it only ever runs in a child process.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from backends import NothingToConvert
from backends.compiler import batch, contiguity, decisions, regions, whole
from backends.compiler.construction import construct
from backends.compiler.host import state_text


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
    decided: Mapping[str, str] = field(default_factory=dict)
    """What the user's lines decided by sizes: the condition to refuse by, and what then does not hold."""
    unset: tuple[str, ...] = ()
    """Attributes in which forward leaves a tensor that it does not read: the new one will not."""


def load(path: Path) -> types.ModuleType:
    """Execute the file at `path` as a module named "problem"; never as __main__."""
    spec = importlib.util.spec_from_file_location("problem", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["problem"] = module  # dataclasses and torch look a class's module up by name
    vars(module)["len"] = decisions.length
    spec.loader.exec_module(module)
    for thing in vars(module).values():
        if isinstance(thing, type) and is_dataclass(thing) and thing.__module__ == "problem":
            pytree.register_dataclass(thing)  # so that the exporter looks into those that forward takes or returns
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


Symbols = Literal["all", "first", "none"]
"""Which dimensions of each input stand for any size."""


def capture(path: Path, entry: str, *, symbols: Symbols = "all") -> Captured:
    """Trace `entry.forward` on the file's own inputs; raise NothingToConvert with the reason.

    Dimensions of the inputs that are no symbols are the file's own sizes.
    """
    mode = without_data()
    try:
        with mode, torch.no_grad():
            problem = load(path)
            arguments, keywords = as_init_call(problem.get_init_inputs())
        with torch.no_grad():
            module = construct(getattr(problem, entry), arguments, keywords, mode)
        with mode, whole.answered(), torch.no_grad():
            inputs, named = as_call(problem.get_inputs())
            before = _plain_tensors(module)
            # fills lazy modules, and fails here if the paste itself does
            results = module(*batch.copies(inputs), **batch.copies(named))
            two = batch.of_two(module, inputs, named, results) if symbols != "none" else None
            kept = {text: made for text, made in _plain_tensors(module).items() if before.get(text) is not made}
    except NothingToConvert:
        raise
    except (DataDependentOutputException, DynamicOutputShapeException) as fault:
        raise NothingToConvert("not_convertible", DATA_DEPENDENT, "", _line(fault, path)) from fault
    except Exception as fault:
        raise NothingToConvert("reference_error", *_explain(fault, path)) from fault
    bound = inspect.signature(module.forward).bind(*inputs, **named).arguments
    if two is not None:
        with contextlib.suppress(NothingToConvert):
            captured = _traced(module, path, *two, mode, symbols, kept)
            if not any(decisions.refuses(condition, bound) for condition in captured.decided):
                return captured
    return _traced(module, path, inputs, named, mode, symbols, kept)


def _traced(
    module: torch.nn.Module,
    path: Path,
    inputs: list[Any],
    named: dict[str, Any],
    mode: FakeTensorMode,
    symbols: Symbols,
    kept: dict[str, torch.Tensor],
) -> Captured:
    """Trace one call; raise NothingToConvert, also where it reads what an earlier one has `kept` in attributes."""
    bound = inspect.signature(module.forward).bind(*inputs, **named).arguments
    texts, leaves = _input_leaves(bound)
    try:
        with mode, whole.answered(), torch.no_grad(), decisions.watched(path) as decided:
            program = _export(module, tuple(inputs), named, bound, symbols)
        with torch.no_grad():
            regions.put_in_line(program.graph_module)
    except NothingToConvert:
        raise
    except Exception as fault:
        if kept and "fake mode" in str(fault):  # the exporter calls forward again, and meets its own tensors
            raise _earlier_call(next(iter(kept))) from fault
        raise NothingToConvert("not_convertible", *_explain(fault, path)) from fault
    for text, tensor in kept.items():
        if any(constant is tensor for constant in program.constants.values()):
            raise _earlier_call(text)
    constants = {text: leaf for text, leaf in zip(texts, leaves, strict=True) if not isinstance(leaf, torch.Tensor)}
    found = decisions.conditions(decided, bound, _free(program, texts))
    return Captured(program, module, path, texts, constants, found, tuple(kept))


def _free(program: ExportedProgram, texts: tuple[str, ...]) -> set[str]:
    """Name the dimensions of the inputs that the graph takes at any length."""
    given = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"][-len(texts) :]
    return {
        f"{text}.shape[{dim}]"
        for text, value in zip(texts, given, strict=True)
        if isinstance(value, torch.Tensor)
        for dim, size in enumerate(value.shape)
        if isinstance(size, torch.SymInt)
    }


def without_data() -> FakeTensorMode:
    """Tensors that are shapes alone.

    torch remembers each one that it makes by a weak reference, and for those alone `.half()` or `.to()` in a
    constructor then fails: a parameter that is referred to cannot be swapped. Nothing here asks for the memory.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    mode.fake_tensor_converter.set_tensor_memo = lambda tensor, fake: None  # type: ignore[method-assign, assignment]
    return mode


def _plain_tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """List the tensors that are attributes, and neither parameters nor buffers nor what a hook makes at every call."""
    return {
        f"{state_text(path)}.{name}": value
        for path, part in module.named_modules()
        for name, value in vars(part).items()
        if isinstance(value, torch.Tensor) and name not in _remade(part)
    }


def _remade(part: torch.nn.Module) -> set[str]:
    """Name what `spectral_norm` and `weight_norm` in their old form compute anew before every forward."""
    hooks = [hook for hook in part._forward_pre_hooks.values() if type(hook).__module__.startswith("torch.nn.utils.")]
    return {name for hook in hooks if isinstance(name := getattr(hook, "name", None), str)}


def _earlier_call(text: str) -> NothingToConvert:
    return NothingToConvert(
        "not_convertible",
        f"forward reads what an earlier call kept in {text}: a kernel file computes from its arguments, parameters "
        "and buffers alone",
        "Return it and take it as an argument, or write it into a buffer in place.",
    )


def _export(
    module: torch.nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], bound: dict[str, Any], symbols: Symbols
) -> ExportedProgram:
    """Export with dimensions of the arguments in `bound` as symbols."""

    def free(leaf: Any) -> Any:
        dims = range(leaf.dim() if symbols == "all" else min(leaf.dim(), 1)) if isinstance(leaf, torch.Tensor) else ()
        return dict.fromkeys(dims, Dim.AUTO) or None

    shapes = pytree.tree_map(free, bound) if symbols != "none" else None
    # one result in fifty is found in the cache where sizes are symbols, and its keys take a fifth of the time
    uncached = torch._dynamo.config.patch(fake_tensor_cache_enabled=False)
    with uncached, contiguity.read_off():
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
