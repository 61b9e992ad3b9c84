"""What each kind of layer and of weight takes as its input: the tables of torch.nn, as shapes."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from verifier.paste.evaluate import Unknown, evaluate, size
from verifier.paste.statements import dotted

ROWS, TIME = 8, 16
SPATIAL = {1: (32,), 2: (32, 32), 3: (8, 16, 16)}
BASES = {
    "torch.nn.Linear": "64, 48",
    "torch.nn.Embedding": "128, 64",
    "torch.nn.LayerNorm": "64",
    "torch.nn.RMSNorm": "64",
    "torch.nn.GroupNorm": "4, 16",
    **{f"torch.nn.{kind}{n}d": "16, 16, 3" for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)},
    **{f"torch.nn.BatchNorm{n}d": "16" for n in (1, 2, 3)},
}
"""Constructor arguments for a subclass that keeps its base's constructor."""
_FIRST = (
    "in_features in_channels num_embeddings num_features num_channels embed_dim input_size d_model normalized_shape"
).split()


@dataclass(frozen=True)
class Need:
    """The shape that a layer takes; `limit` for indices; `parameter` names the constructor argument it hangs on."""

    shape: tuple[int, ...]
    reason: str
    limit: int = 0
    parameter: str = ""
    channels: bool = False


def layer_need(layer: ast.Call, full: str, known: Mapping[str, Any], position: int) -> Need | None:
    """Return what a layer of torch.nn takes as its argument number `position`."""
    kind, reason = full.rpartition(".")[2], ast.unparse(layer)
    first = layer.args[0] if layer.args else layer.keywords[0].value if layer.keywords else None
    named = {k.arg: k.value for k in layer.keywords}
    for key in _FIRST:
        first = named.get(key, first)
    if kind == "GroupNorm":
        first = named.get("num_channels", layer.args[1] if len(layer.args) > 1 else None)
    parameter = first.id if isinstance(first, ast.Name) else ""
    try:
        shape, limit, channels = _taken(kind, first, known, position)
    except Unknown:
        return None
    return Need(shape, reason, limit, parameter, channels) if shape else None


def _taken(
    kind: str, first: ast.expr | None, known: Mapping[str, Any], position: int
) -> tuple[tuple[int, ...], int, bool]:
    dimension = int(kind[-2]) if kind[-2:] in ("1d", "2d", "3d") else 0
    if kind in ("Linear", "Bilinear"):
        return (ROWS, size(first, known)), 0, False
    if kind in ("Embedding", "EmbeddingBag"):
        return (4, TIME), size(first, known), False
    if dimension and ("Conv" in kind or "Norm" in kind):
        return (2, size(first, known), *SPATIAL[dimension]), 0, True
    if dimension and "Pad" in kind:
        return (2, 8, *SPATIAL[dimension]), 0, True
    if kind == "GroupNorm":
        return (2, size(first, known), *SPATIAL[2]), 0, True
    if kind in ("LayerNorm", "RMSNorm"):
        shape = evaluate(first, known)
        return (4, TIME, *(shape if isinstance(shape, list) else [size(first, known)])), 0, False
    if kind in ("RNN", "LSTM", "GRU", "MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer"):
        return ((TIME, 4, size(first, known)) if position < 3 else ()), 0, False
    if kind in ("LSTMCell", "GRUCell", "RNNCell"):
        return ((ROWS, size(first, known)) if position == 0 else ()), 0, False
    if kind in ("CrossEntropyLoss", "NLLLoss"):
        return ((ROWS, 10), 0, False) if position == 0 else ((ROWS,), 10, False)
    return (), 0, False


def multiplied(weight: Need) -> Need:
    rows = (ROWS,) if len(weight.shape) <= 2 else (*weight.shape[:-2], ROWS)
    return Need((*rows, weight.shape[-2] if len(weight.shape) > 1 else weight.shape[0]), weight.reason)


def broadcast(weight: Need) -> Need:
    shape = weight.shape
    if len(shape) == 1:
        return Need((ROWS, *(TIME if n == 1 else n for n in shape)), weight.reason)
    return Need(tuple((2 if i == 0 else TIME) if n == 1 else n for i, n in enumerate(shape)), weight.reason)


def ranked(need: Need, forward: ast.FunctionDef, name: str) -> Need:
    """Give a row-wise layer the number of dimensions that `b, t, d = x.shape` says."""
    if need.channels or need.limit:
        return need
    for node in ast.walk(forward):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            value = node.value.func if isinstance(node.value, ast.Call) else node.value
            if dotted(value) in (f"{name}.shape", f"{name}.size"):
                leading = {2: (ROWS,), 3: (4, TIME), 4: (2, 8, 8)}.get(len(node.targets[0].elts))
                return replace(need, shape=(*leading, need.shape[-1])) if leading else need
    return need


def unmoved(need: Need, moved: tuple[int, ...]) -> Need:
    """Undo x.permute(…) that stands before the layer."""
    if not moved:
        return need
    shape = need.shape
    if len(shape) != len(moved):
        if need.channels:
            return need
        shape = (2, *(8,) * (len(moved) - 2), shape[-1])
    back = [0] * len(moved)
    for place, axis in enumerate(moved):
        back[axis] = shape[place]
    return replace(need, shape=tuple(back))
