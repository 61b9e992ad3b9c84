"""Questions to a node of the exported graph: its name, its module, its sizes, what it writes to."""

from __future__ import annotations

import re
from typing import Any

import torch

from backends.compiler.ir import Shape, Size
from backends.compiler.rules import schema_name

UNKNOWN = 1024
"""Stands for a size that capture could not tell; it chooses a frame, and decides nothing else."""


def sizes(shape: Any) -> Shape:
    """Describe a traced shape."""
    return tuple(
        Size(size.node.hint if size.node.hint is not None else UNKNOWN, size.node.expr)
        if isinstance(size, torch.SymInt)
        else Size(int(size))
        for size in shape
    )


def op_name(node: torch.fx.Node) -> str:
    """Return PyTorch's name of the operator, without its overload: add.Tensor → add."""
    name = schema_name(node.target) or str(node.target)
    return name.removeprefix("aten.").split(".")[0].rstrip("_") or "call"


PRODUCTS = re.compile(r"linear|matmul|mm|bmm|addmm|baddbmm|einsum|bilinear|conv\d?d?|\w+_cell")
"""Operators that no kernel computes several of."""


def products(nodes: list[torch.fx.Node]) -> int:
    """Count the operators that begin a kernel of their own each."""
    return sum(PRODUCTS.fullmatch(op_name(node)) is not None for node in nodes)


def rounds(node: torch.fx.Node, products: int) -> int:
    """Count the parts that the graph takes of a tensor like this; 0 where they are not each for a product of its own.

    A loop over time does that, or one over samples. What computes without products is one kernel over many parts.
    """
    if node.target != torch.ops.aten.select.int:
        return 0
    source = _sliced(node.args[0])
    given = [source, *(user for user in source.users if _sliced(user) is source)]
    count = sum(user.target is node.target and user.args[1] == node.args[1] for part in given for user in part.users)
    return count if products >= count else 0


def _sliced(node: Any) -> torch.fx.Node:
    """Look behind slices that take all, as x[:, t] begins with one."""
    while node.target == torch.ops.aten.slice.Tensor and tuple(node.args[2:]) in ((), (0,), (0, 2**63 - 1)):
        node = node.args[0]
    return node  # type: ignore[no-any-return]


def module_path(node: torch.fx.Node) -> str:
    """Return the dotted path of the innermost submodule a node ran in."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack else ""
    return _once(path) if not path.startswith("_empty") else ""


def leaf_call(node: torch.fx.Node) -> tuple[str, str] | None:
    """Return (path, key) of the torch.nn module call a node belongs to, None outside one."""
    stack = node.meta.get("nn_module_stack") or {}
    if not stack:
        return None
    key, (path, kind) = list(stack.items())[-1]
    name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    return (_once(path), key) if name.startswith("torch.nn.modules.") and path else None


def module_calls(node: torch.fx.Node) -> tuple[tuple[str, str], ...]:
    """Return the module calls a node ran in, the outermost first: path, with a number behind @ for a later call, class.

    The module that is converted is none of them.
    """
    stack = (node.meta.get("nn_module_stack") or {}).values()
    return tuple((path, _short(kind)) for path, kind in stack if path and not path.startswith("_empty"))


def _short(kind: str | type) -> str:
    """Write a class as people do: nn.Linear for torch's own, its bare name for one of the file's."""
    name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    return ("nn." if name.startswith("torch.nn.modules.") else "") + name.rpartition(".")[2]


def _once(path: str) -> str:
    """Drop the number that the exporter gives a module's second call."""
    return re.sub(r"@\d+", "", path)


def writes_in_place(target: Any) -> bool:
    """Tell whether an operator changes one of its arguments; detach_ changes no number."""
    is_operator = isinstance(target, torch._ops.OpOverload) and target is not torch.ops.aten.detach_.default
    return is_operator and target._schema.is_mutable


def mutated_argument(node: torch.fx.Node) -> torch.fx.Node | None:
    """Return the first argument an operator writes to."""
    if not writes_in_place(node.target):
        return None
    for index, argument in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
            return given if isinstance(given, torch.fx.Node) else None
    return None
