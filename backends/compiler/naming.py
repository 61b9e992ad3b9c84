"""Names a person would choose: from the user's variables, the parameters' own names, and PyTorch's."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

RESERVED = {
    "tl", "triton", "torch", "nn", "F", "math", "self", "inside", "row", "column", "line", "offsets", "start",
    "shape", "block", "block_lines", "block_rows", "block_m", "block_n", "block_k", "warps", "parts", "left", "right",
    "batch", "along_k", "gemm_tile", "expect_shape", "acc", "pid", "tanh_of", "log1p_of", "expm1_of", *keyword.kwlist, *dir(builtins),
}


OTHER_WORDS = {
    "abs": "magnitude", "sum": "total", "max": "largest", "min": "smallest", "pow": "power", "all": "all_true",
    "any": "any_true", "round": "rounded", "slice": "part", "pad": "padded",
}
"""What to call a variable whose operator has the name of a Python builtin."""


class Names:
    """Gives each thing of one scope an unused name."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken) | RESERVED

    def unused(self, *wishes: str) -> str:
        """Return the first wish that is free, else the last one with a number."""
        wishes = tuple(OTHER_WORDS.get(wish, wish) for wish in wishes)
        for wish in wishes:
            if identifier(wish) not in self.taken:
                return self.take(identifier(wish))
        base, number = identifier(wishes[-1]), 2
        while f"{base}_{number}" in self.taken:
            number += 1
        return self.take(f"{base}_{number}")

    def take(self, name: str) -> str:
        """Mark a name as used."""
        self.taken.add(name)
        return name


def identifier(text: str) -> str:
    """Make any text a Python name."""
    name = re.sub(r"\W+", "_", text).strip("_")
    return name if name and not name[0].isdigit() else f"t_{name}"


def chain(steps: list[str], limit: int = 48) -> str:
    """Name a kernel after what it computes: the operations' PyTorch names, in order, each once."""
    kept = list(dict.fromkeys(steps))
    name = "_".join(kept)
    while len(name) > limit and len(kept) > 2:  # the first and the last say most
        del kept[len(kept) // 2]
        name = "_".join(kept)
    return name
