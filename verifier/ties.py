"""Operators that choose among equal numbers: which one PyTorch takes differs by device and release.

The oracle takes the first, as a stable sort does: a kernel is right that has that one, or PyTorch's own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHOOSING = frozenset({"topk", "sort", "kthvalue", "median"})


def stable(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call an operator of `CHOOSING` in such a way that equal numbers stay in the order in which they lie."""
    given = {argument.name: argument.default_value for argument in func._schema.arguments}
    given |= dict(zip(given, args, strict=False)) | kwargs
    x = given["self"]
    if "out" in given or "values" in given or "dim" not in given or not x.dim():
        return func(*args, **kwargs)
    name, dim = func._schema.name.rpartition("::")[2], given["dim"]
    is_descending = given["largest"] if name == "topk" else given.get("descending", False)
    values, places = torch.sort(x, dim=dim, descending=is_descending, stable=True)
    if name == "sort":
        return values, places
    if name == "topk":
        return values.narrow(dim, 0, given["k"]), places.narrow(dim, 0, given["k"])
    rank = _middle(x, dim) if name == "median" else torch.full_like(places.narrow(dim, 0, 1), given["k"] - 1)
    chosen = values.gather(dim, rank), places.gather(dim, rank)
    return chosen if given["keepdim"] else tuple(part.squeeze(dim) for part in chosen)


def _middle(x: Tensor, dim: int) -> Tensor:
    """Return the rank of the median: of the first NaN, where there is one."""
    n, missing = x.shape[dim], (x != x).sum(dim, keepdim=True)
    return torch.where(missing > 0, n - missing, (n - 1) // 2)
