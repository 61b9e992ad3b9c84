"""Operators that together mean one: a scan between two flips runs backwards, one behind a zero is exclusive.

What stands between is left to nobody and so is never computed, unless something else reads it.
"""

from __future__ import annotations

from typing import Any

import torch

from backends.compiler.environment import Environment, traced
from backends.compiler.ir import Value
from backends.compiler.nodes import sizes
from backends.compiler.rules import Declined, bind, schema_name
from backends.compiler.rules.scan import running

SCANS = {"cumsum.default": "sum", "cumprod.default": "prod"}
ZEROS = ("zeros_like.default", "zeros.default", "new_zeros.default")


def recognised(env: Environment, node: torch.fx.Node) -> Value | None:
    """Lower a node together with those before it that it completes to one operation; None if it does not."""
    name = schema_name(node.target)
    if env.builder.program_writes_in_place:
        return None  # what stands between may have read other numbers than are there now
    try:
        if name == "flip.default":
            return _backwards(env, node)
        if name == "cat.default":
            return _behind_zeros(env, node)
    except Declined:
        return None
    return None


def _bound(node: Any, *names: str) -> dict[str, Any]:
    """Return a node's arguments if it is one of these operators, else none."""
    if not isinstance(node, torch.fx.Node) or schema_name(node.target) not in names:
        raise Declined("")
    return bind(node.target, node.args, dict(node.kwargs))


def _scan(env: Environment, outer: torch.fx.Node, scan: dict[str, Any], kind: str, x: Any, **way: bool) -> Value:
    """Write the scan that `outer` stands for."""
    env.builder.result = traced(outer, "")
    return running(env.builder, kind, env.resolve(x), scan["dim"], scan["dtype"], **way)


def _backwards(env: Environment, node: torch.fx.Node) -> Value:
    """flip(scan(flip(x)))."""
    last = _bound(node, "flip.default")
    scan = _bound(last["self"], *SCANS)
    first = _bound(scan["self"], "flip.default")
    rank = len(node.meta["val"].shape)
    walked = {scan["dim"] % rank} if rank else set()
    if {dim % rank for dim in last["dims"]} != walked or {dim % rank for dim in first["dims"]} != walked:
        raise Declined("")
    kind = SCANS[schema_name(last["self"].target)]
    return _scan(env, node, scan, kind, first["self"], reverse=True)


def _behind_zeros(env: Environment, node: torch.fx.Node) -> Value:
    """cat([0, cumsum(x without its last)]), or cat([0, cumsum(x) without its last])."""
    joined = _bound(node, "cat.default")
    if len(joined["tensors"]) != 2:
        raise Declined("")
    zero, rest = joined["tensors"]
    _bound(zero, *ZEROS)
    rank = len(node.meta["val"].shape)
    dim = joined["dim"] % rank
    if schema_name(rest.target) == "cumsum.default":
        scan = _bound(rest, "cumsum.default")
        x = _without_last(scan["self"], dim)
    else:
        before = _without_last(rest, dim)
        scan = _bound(before, "cumsum.default")
        x = scan["self"]
    is_whole = sizes(x.meta["val"].shape) == sizes(node.meta["val"].shape)
    same_dtype = len({tensor.meta["val"].dtype for tensor in (zero, rest, node)}) == 1
    if scan["dim"] % rank != dim or sizes(zero.meta["val"].shape)[dim].hint != 1 or not is_whole or not same_dtype:
        raise Declined("")
    return _scan(env, node, scan, "sum", x, exclusive=True)


def _without_last(node: Any, dim: int) -> torch.fx.Node:
    """Return what a node leaves out the last place of; that its size is one less is left to the caller."""
    cut = _bound(node, "narrow.default", "slice.Tensor")
    source: torch.fx.Node = cut["self"]
    rank = len(source.meta["val"].shape)
    if cut["dim"] % rank != dim or cut["start"] not in (0, None) or cut.get("step", 1) != 1:
        raise Declined("")
    return source
