"""Views that rules write: made on the host, and undone where one view takes another back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from backends.compiler import seethrough
from backends.compiler.ir import ONE, Op, Shape, Size, Value, View


class Views:
    """The part of the builder that makes views."""

    def _add(self, make: type[Op], label: str, shape: Shape, dtype: torch.dtype, **fields: Any) -> Value:
        raise NotImplementedError

    def view(
        self, source: Value, shape: Shape, text: str, kind: str = "opaque", dim: int = 0, *, label: str = "view",
        dense: bool = True,
    ) -> Value:
        """Make a view on the host: `text` with {0} for the source."""
        out = self._add(View, label, shape, source.dtype, source=source, text=text, kind=kind, dim=dim)
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
            source = self.view(source, shape, f"{{0}}.squeeze({dim})", "squeeze", dim, label="squeeze")
        return source

    def unsqueeze(self, source: Value, dim: int) -> Value:
        """Insert a dimension of size 1."""
        if undone := seethrough.undo(source, "squeeze", dim):
            return undone
        shape = (*source.shape[:dim], ONE, *source.shape[dim:])
        return self.view(source, shape, f"{{0}}.unsqueeze({dim})", "unsqueeze", dim, label="unsqueeze")

    def flatten(self, source: Value, start: int, end: int, size: Size) -> Value:
        """Merge dimensions start..end into one."""
        shape = (*source.shape[:start], size, *source.shape[end + 1 :])
        text = f"{{0}}.flatten({start}, {end})"
        return self.view(source, shape, text, "flatten", start, label="flatten")

    def unflatten(self, source: Value, dim: int, sizes: Sequence[Size], text: str) -> Value:
        """Split a dimension; `text` is how the host writes the sizes."""
        shape = (*source.shape[:dim], *sizes, *source.shape[dim + 1 :])
        if (undone := seethrough.undo(source, "flatten", dim)) and undone.shape == shape:
            return undone
        return self.view(source, shape, f"{{0}}.unflatten({dim}, {text})", "unflatten", dim, label="unflatten")
