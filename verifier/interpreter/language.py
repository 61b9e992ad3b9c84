"""Smaller faults of the interpreter: names lent to the kernel, its search for `def`, precisions, autotuning, argmax.

Each repair makes the interpreter behave as the compiler does, on every supported Triton.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


def repair() -> None:
    """Patch the interpreter of this process."""
    from triton.runtime import interpreter as it

    _repair_rewriting(it)
    _repair_scalars(it)
    _repair_splat(it)
    _repair_arg_reductions(it)
    _accept_precisions(it)
    _first_config_only()
    _patch_once(it)


def _patch_once(it: Any) -> None:
    """Prepare the language once a launch for tl.sum and its like, not once a call: that was a third of the time."""
    launch, patch_lang = it.GridExecutor.__call__, it._patch_lang
    patched: set[int] = set()  # globals of the functions whose language is ready, during a launch

    def launched(self: Any, *args: Any, **kwargs: Any) -> Any:
        patched.clear()
        try:
            return launch(self, *args, **kwargs)
        finally:
            patched.clear()

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        place = id(self.fn.__globals__)
        if place not in patched:
            patch_lang(self.fn)
            patched.add(place)
        function = self.rewrite()
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise it.InterpreterError(repr(error)) from error

    it.GridExecutor.__call__, it.InterpretedFunction.__call__ = launched, called


def _repair_rewriting(it: Any) -> None:
    """Find the kernel's own `def`, and take back the module globals that the rewriter lends to it (math, np, ...)."""
    rewriter = it.FunctionRewriter
    run = rewriter._compile_and_exec
    needed = {"interpreter_semantic", "_InterpreterComparison"}

    def compile_and_exec(self: Any, tree: Any) -> Any:
        known = set(self.fn.__globals__)
        result = run(self, tree)
        for name in set(self.fn.__globals__) - known - needed:
            del self.fn.__globals__[name]  # a kernel that forgot to import math must fail here as on a GPU
        return result

    def find_def(self: Any, lines: list[str]) -> int:
        return next((at + 1 for at, line in enumerate(lines) if line.strip().startswith("def ")), 0)

    rewriter._compile_and_exec, rewriter._find_def = compile_and_exec, find_def


def _repair_scalars(it: Any) -> None:
    """Let range(0, K, BLOCK) take a scalar tensor: numpy 2.4 refuses int() of a one-element array."""
    patch = it._patch_lang_tensor

    def patch_lang_tensor(tensor: Any, *scope: Any) -> None:
        patch(tensor, *scope)
        tensor.__index__ = lambda self: int(self.handle.data.reshape(-1)[0])

    it._patch_lang_tensor = patch_lang_tensor


def _repair_splat(it: Any) -> None:
    """A comparison of two scalars keeps their dtype there; spread over a block, it must be a boolean again."""
    splat = it.InterpreterBuilder.create_splat

    def create_splat(self: Any, ret_ty: Any, arg: Any) -> Any:
        if arg.data.dtype == np.bool_:
            return it.TensorHandle(np.full(ret_ty.shape, arg.data.reshape(-1)[0]), it.tl.int1)
        return splat(self, ret_ty, arg)

    it.InterpreterBuilder.create_splat = create_splat


def _repair_arg_reductions(it: Any) -> None:
    """numpy's nanargmax raises on a row of NaN; a GPU answers with some index."""
    min_max = it.ReduceOps.min_max

    def nan_safe(function: Any, worst: float) -> Any:
        def index(data: Any, **named: Any) -> Any:
            filled = np.where(np.isnan(data), worst, data) if np.issubdtype(data.dtype, np.floating) else data
            return function(filled, **named)

        return index

    safe = {np.nanargmax: nan_safe(np.argmax, -np.inf), np.nanargmin: nan_safe(np.argmin, np.inf)}

    def repaired(self: Any, value: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        with np.errstate(all="ignore"):
            return min_max(self, value, val_reduce_op, safe.get(idx_reduce_op, idx_reduce_op))

    it.ReduceOps.min_max = repaired


def _accept_precisions(it: Any) -> None:
    """Take every dot precision the compiler takes; all are computed exactly here."""
    options = it.interpreter_builder.options
    names = (*options.allowed_dot_input_precisions, "bf16x3", "bf16x6")
    wider = dataclasses.replace(options, allowed_dot_input_precisions=tuple(dict.fromkeys(names)))
    it.interpreter_builder.options = wider
    init = it.InterpreterBuilder.__init__

    def initialise(self: Any) -> None:
        init(self)
        self.options = wider

    it.InterpreterBuilder.__init__ = initialise


def _first_config_only() -> None:
    """Run an autotuned kernel with its first configuration: timing the interpreter means nothing."""
    from triton.runtime.autotuner import Autotuner

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        config = self.configs[0]
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        return self.fn.run(*args, **kwargs, **config.all_kwargs())

    Autotuner.run = run
