"""Views that rules write: made on the host, and undone where one view takes another back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from backends.compiler import seethrough, viewmaps
from backends.compiler.indexed import Map
from backends.compiler.ir import ONE, Op, Shape, Size, Value, View


class Views:
    """The part of the builder that makes views."""

    def _add(self, make: type[Op], label: str, shape: Shape, dtype: torch.dtype, **fields: Any) -> Value:
        raise NotImplementedError

    def view(
        self,
        source: Value,
        shape: Shape,
        text: str,
        kind: str = "opaque",
        dim: int = 0,
        *,
        label: str = "view",
        dense: bool = True,
        map: Map | None = None,
    ) -> Value:
        """Make a view on the host: `text` with {0} for the source."""
        out = self._add(View, label, shape, source.dtype, source=source, text=text, kind=kind, dim=dim, map=map)
        out.aliases, out.dense = source, dense and source.dense
        return out

    def squeeze(self, source: Value, dims: Sequence[int]) -> Value:
        """Drop dimensions of size 1, last first so that the numbers stay valid."""
        rank = len(source.shape)
        order = [0] * rank if len(dims) == rank else sorted((dim % rank for dim in dims), reverse=True)
        for dim in order:
            if undone := seethrough.undo(source, "unsqueeze", dim):
                source = undone
                continue
            shape = source.shape[:dim] + source.shape[dim + 1 :]
            text, where = f"{{0}}.squeeze({dim})", viewmaps.squeezed(source, dim)
            source = self.view(source, shape, text, "squeeze", dim, label="squeeze", map=where)
        return source

    def unsqueeze(self, source: Value, dim: int) -> Value:
        """Insert a dimension of size 1."""
        if undone := seethrough.undo(source, "squeeze", dim):
            return undone
        shape = (*source.shape[:dim], ONE, *source.shape[dim:])
        text, where = f"{{0}}.unsqueeze({dim})", viewmaps.unsqueezed(source, dim)
        return self.view(source, shape, text, "unsqueeze", dim, label="unsqueeze", map=where)

    def flatten(self, source: Value, start: int, end: int, size: Size) -> Value:
        """Merge dimensions start..end into one."""
        shape = (*source.shape[:start], size, *source.shape[end + 1 :])
        text = f"{{0}}.flatten({start}, {end})"
        flat = viewmaps.flattened(source, shape, start, end)
        return self.view(source, shape, text, "flatten", start, label="flatten", map=flat)

    def unflatten(self, source: Value, dim: int, sizes: Sequence[Size], text: str, given: Sequence[Any] = ()) -> Value:
        """Split a dimension; `text` is how the host writes the sizes, `given` what the user gave."""
        shape = (*source.shape[:dim], *sizes, *source.shape[dim + 1 :])
        if (undone := seethrough.undo(source, "flatten", dim)) and undone.shape == shape:
            return undone
        extents = viewmaps.split_extents(source, dim, sizes, given) if given else []
        parted = viewmaps.split(source, shape, dim, len(sizes), extents) if extents else None
        text = f"{{0}}.unflatten({dim}, {text})"
        return self.view(source, shape, text, "unflatten", dim, label="unflatten", map=parted)
