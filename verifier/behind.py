"""Names that lead from what a kernel file may use to what watches it: in its text, and while it runs.

Python tells nobody who reads most of them, so the text is searched, and `getattr` and `vars` are asked at run time.
"""

from __future__ import annotations

import ast
import builtins
import copy
import enum
import inspect
import operator
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

HIDDEN = frozenset(
    """
    __closure__ cell_contents __globals__ __self__ __func__ __wrapped__ __subclasses__ __getattribute__ __reduce__
    __reduce_ex__ __objclass__ cache_info getrefcount getallocatedblocks f_back f_locals f_globals tb_frame
    gi_frame _getframe _current_frames getclosurevars getmembers getmembers_static getattr_static
    _get_current_dispatch_mode _get_current_dispatch_mode_stack _get_dispatch_mode _get_dispatch_stack_at
    _len_torch_dispatch_stack _pop_torch_dispatch_stack _push_on_torch_dispatch_stack _set_dispatch_mode
    _unset_dispatch_mode _disable_current_modes _pop_mode _pop_mode_temporarily _push_mode _get_current_function_mode
    _get_current_function_mode_stack _get_function_stack_at _len_torch_function_stack _pop_torch_function_stack
    _push_on_torch_function_stack _pop_mode_from_pre_dispatch _DisableTorchDispatch
    _dispatch_tls_set_dispatch_key_excluded _dispatch_tls_set_dispatch_key_included no_dispatch _operator
    _ExcludeDispatchKeyGuard _IncludeDispatchKeyGuard _ForceDispatchKeyGuard _AutoDispatchBelowAutograd
    """.split()
)
"""Attributes of functions, methods and frames, hidden counters, and PyTorch's own ways to the modes at work."""

_WORD = re.compile(r"(?<!\w)(?:" + "|".join(sorted(HIDDEN)) + r")(?!\w)")
_CLOSED = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type)


def named_in(tree: ast.AST) -> str:
    """Return the first such name that a file uses, plainly or in a text that is no docstring; "" for none."""
    modules = {name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in _imported(node)}
    for node in ast.walk(tree):
        for name in _names(node):
            if name in HIDDEN:
                return name
        if isinstance(node, ast.Attribute) and node.attr == "__dict__" and _root(node) in modules:
            return "__dict__"
    found = next((found for text in texts(tree) if (found := _WORD.search(text))), None)
    return found[0] if found else ""


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a file that are no docstrings."""
    words = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in words:
            yield node.value


def _imported(node: ast.Import) -> Iterator[str]:
    for name in node.names:
        yield name.asname or name.name.partition(".")[0]


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):  # its own variable may be called so
        yield node.id
    elif isinstance(node, ast.alias):
        yield node.name
    elif isinstance(node, ast.MatchClass):
        yield from node.kwd_attrs


def watch(refuse: Callable[[str], None]) -> None:
    """Have `getattr` and its like ask about such names first in this process; `refuse` raises where it must not be."""
    read, attributes, getter = builtins.getattr, builtins.vars, operator.attrgetter

    def getattr(thing: Any, name: str, *default: Any) -> Any:
        if name in HIDDEN and not _for_itself(sys._getframe(1), name):
            refuse(f"looks behind functions and frames ({name})")
        return read(thing, name, *default)

    def vars(*thing: Any) -> Any:
        if thing and (isinstance(thing[0], _CLOSED) or _is_private(thing[0])):
            refuse("looks behind functions and frames (vars)")
        return attributes(*thing) if thing else sys._getframe(1).f_locals

    def attrgetter(*names: str) -> Any:
        for name in names:
            if HIDDEN.intersection(name.split(".")):
                refuse(f"looks behind functions and frames ({name})")
        return getter(*names)

    builtins.getattr, builtins.vars, operator.attrgetter = getattr, vars, attrgetter  # type: ignore[misc, assignment]


def _for_itself(frame: types.FrameType, name: str) -> bool:
    """Tell Python's library that asks such a thing for its own use, and hands nothing of it on.

    `copy` asks every object how it is taken apart, `enum` every class; `overload` asks what a method holds; of a
    function whose annotations are wanted as they stand, as a dataclass wants its own, `inspect` asks for the names
    it knows.
    """
    if name in ("__reduce__", "__reduce_ex__"):
        return frame.f_code.co_filename in (copy.__file__, enum.__file__)
    if name == "__func__":
        return frame.f_code is typing.overload.__code__
    return frame.f_code is inspect.get_annotations.__code__ and not frame.f_locals["eval_str"]


def _is_private(thing: Any) -> bool:
    return isinstance(thing, types.ModuleType) and thing.__name__.partition(".")[0] in ("torch", "triton")
