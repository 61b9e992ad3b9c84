"""A batch of one stands for batches of any size: the exporter takes 1 for a constant, and 2 for a number of rows."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

Call = tuple[list[Any], dict[str, Any]]


def of_two(module: torch.nn.Module, inputs: list[Any], named: dict[str, Any], results: Any) -> Call | None:
    """Return the inputs with two rows for one, or None where that would be another problem.

    `results` are what forward gives for the inputs as they are. It would be another one where not every input has
    one row, where forward does not take two, or where its results do not just have twice the rows.
    """
    tensors = [leaf for leaf in pytree.tree_leaves((inputs, named)) if isinstance(leaf, torch.Tensor) and leaf.dim()]
    if not tensors or any(tensor.shape[0] != 1 for tensor in tensors):
        return None
    twice, named_twice = pytree.tree_map(_twice, (inputs, named))
    try:
        one, two = _shapes(results), _shapes(module(*copies(twice), **copies(named_twice)))
    except Exception:  # a forward that takes one row alone: it is converted for that
        return None
    is_batch = len(one) == len(two) and all(map(_has_twice_the_rows, one, two)) and one != two
    return (twice, named_twice) if is_batch else None


def _twice(leaf: Any) -> Any:
    return torch.cat([leaf, leaf]) if isinstance(leaf, torch.Tensor) and leaf.dim() else leaf


def copies(given: Any) -> Any:
    """Copy the tensors among a call's inputs: forward may write to them."""
    return pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, given)


def _shapes(results: Any) -> list[tuple[int, ...]]:
    return [tuple(leaf.shape) for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]


def _has_twice_the_rows(one: tuple[int, ...], two: tuple[int, ...]) -> bool:
    return one == two or (one[:1] == (1,) and two == (2, *one[1:]))
